"""Plots of recorded results: each takes axes and the whole file, and returns False if its part was not run."""
import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "tally"  # the same figures give the same file
from matplotlib import pyplot  # noqa: E402  (after use())

COLOURS = {"raw": "#777777", "unicast": "#c44e52", "multicast": "#4c72b0"}


def loop(axes, results):
    """ns per contribution by members."""
    rows = results.get("tally_loop_bench", {}).get("loop", {}).get("rows")
    if not rows:
        return False
    raw = curve(rows, "raw_add")
    axes.plot(*zip(*raw), "o-", color=COLOURS["raw"], label="raw add")
    for key, times in (("unicast", 3.2), ("multicast", 2.0)):
        axes.plot(*zip(*curve(rows, key)), "o-", color=COLOURS[key], label=f"loop, {key}")
        axes.plot([m for m, _ in raw], [times * ns for _, ns in raw], "--", color=COLOURS[key], linewidth=0.8,
                  label=f"goal: {times} x raw add")
    axes.axhline(92, color="black", linewidth=0.8, linestyle=":", label="100 Gbit/s")
    axes.set_xscale("log", base=2)
    axes.set_xticks([m for m, _ in raw], [str(m) for m, _ in raw])
    axes.set_xlabel("members")
    axes.set_ylabel("ns per contribution, 256 elements")
    axes.set_title("One data core over the in-memory port")
    return True


def curve(rows, key):
    return sorted((row["members"], row["median_ns"]) for row in rows if row["key"] == key)


def pipeline(axes, results):
    """Share of raw add by elements."""
    runs = results.get("tally_pipeline_bench", {}).get("runs")
    if not runs:
        return False
    runs = sorted(runs, key=lambda run: run["elements"])
    names = [row["name"] for row in runs[0]["rows"] if row["name"] != "raw add"]
    for i, name in enumerate(names):
        shares = [100 * row["share_of_raw_add"] for run in runs for row in run["rows"] if row["name"] == name]
        axes.bar([x + (i - 1) * 0.27 for x in range(len(runs))], shares, 0.25, label=name)
    axes.set_xticks(range(len(runs)), [f"{run['elements']}" for run in runs])
    axes.set_xlabel("elements")
    axes.set_ylabel("% of raw add's rate")
    axes.set_title("Pipeline alone, parse to verdict")
    return True


PLOTS = {"loop": loop, "pipeline": pipeline}


def draw(plot, results, path):
    """Writes the plot to `path`; False if its part is not in `results`."""
    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    try:
        if not plot(axes, results):
            return False
        run = results.get("run", {})
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
        axes.legend(fontsize="small", loc="upper left", bbox_to_anchor=(1.01, 1))
        figure.text(0.99, 0.01, f"{run.get('cpu', '')}, {run.get('commit', '')}, {run.get('date', '')[:10]}", ha="right",
                    fontsize="x-small")
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        return True
    finally:
        pyplot.close(figure)
