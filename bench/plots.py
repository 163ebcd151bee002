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
    for key in ("unicast", "multicast"):
        axes.plot(*zip(*curve(rows, key + "_nic")), "o-", color=COLOURS[key], label=f"port as a NIC, {key}")
        axes.plot(*zip(*curve(rows, key)), "o--", color=COLOURS[key], linewidth=0.8, label=f"driver that copies, {key}")
    axes.plot([m for m, _ in raw], [3 * ns for _, ns in raw], ":", color=COLOURS["unicast"],
              label="goal of unicast: 3 x raw add")
    axes.axhline(92, color="black", linewidth=0.8, linestyle=":", label="100 Gbit/s")
    axes.set_xscale("log", base=2)
    axes.set_xticks([m for m, _ in raw], [str(m) for m, _ in raw])
    axes.set_xlabel("members")
    axes.set_ylabel("ns per contribution, 256 elements")
    axes.set_title("One data core over the in-memory port")
    return True


def curve(rows, key):
    """(members, ns), the first row of each."""
    found = {}
    for row in rows:
        if row["key"] == key:
            found.setdefault(row["members"], row["median_ns"])
    return sorted(found.items())


def pipeline(axes, results):
    """Share of raw add by elements."""
    runs = results.get("tally_pipeline_bench", {}).get("runs")
    if not runs:
        return False
    runs = sorted(runs, key=lambda run: (run["elements"], run["kernels"]))
    names = [row["name"] for row in runs[0]["rows"] if row["name"] != "raw add"]
    for i, name in enumerate(names):
        shares = [100 * row["share_of_raw_add"] for run in runs for row in run["rows"] if row["name"] == name]
        axes.bar([x + (i - 1) * 0.27 for x in range(len(runs))], shares, 0.25, label=name)
    axes.set_xticks(range(len(runs)), [f"{run['elements']}, {run['kernels']}" for run in runs])
    axes.set_xlabel("elements, kernels")
    axes.set_ylabel("% of raw add's rate")
    axes.set_title("Pipeline alone, parse to verdict")
    return True


def cores(axes, results):
    """Efficiency of two data cores by share of frames handed over."""
    rows = results.get("tally_cores_bench", {}).get("cores", {}).get("rows")
    if not rows:
        return False
    kinds = sorted({row["results"] for row in rows}, reverse=True)
    names = [row["name"] for row in rows if row["results"] == kinds[0] and row["cores"] == 2]
    for i, kind in enumerate(kinds):
        shares = [100 * row["efficiency"] for row in rows if row["results"] == kind and row["cores"] == 2]
        axes.bar([x + (i - 0.5) * 0.4 for x in range(len(shares))], shares, 0.38, color=COLOURS[kind], label=kind)
    axes.axhline(90, color="black", linewidth=0.8, linestyle=":", label="goal")
    axes.set_xticks(range(len(names)), [name.replace(", ", ",\n").replace(" its ", "\nits ") for name in names], fontsize="x-small")
    axes.set_ylabel("% of twice one core")
    axes.set_title("Two data cores")
    return True


RINGS = {"tally": "tally", "gloo": "Gloo's ring", "mpi": "MPICH's ring"}


def rings(axes, results):
    """algbw of each contender as a share of the links' rate, with its own limit."""
    by_workers = results.get("bench-rings", {}).get("rings")
    if not by_workers:
        return False
    for i, (key, name) in enumerate(RINGS.items()):
        present = [(x, at) for x, at in enumerate(by_workers.values()) if key in at]
        places = [x + (i - 1) * 0.27 for x, _ in present]
        axes.bar(places, [100 * at[key]["mbit_s"] / at["rate_mbit_s"] for _, at in present], 0.25, label=name)
        axes.scatter(places, [100 * at["limits"][key] / at["rate_mbit_s"] for _, at in present], marker="_", s=900, color="black",
                     label="limit" if i == 0 else None)
    axes.set_xticks(range(len(by_workers)), [f"{workers} workers, {at['rate_mbit_s']:g} Mbit/s" for workers, at in by_workers.items()])
    axes.set_ylabel("algbw, % of the links' rate")
    axes.set_title("Allreduce on shaped links, one switch for all")
    return True


def loss(axes, results):
    """Goodput with loss, of that without."""
    by_workers = results.get("bench-rings", {}).get("loss")
    if not by_workers:
        return False
    for workers, at in by_workers.items():
        losses = sorted((key for key in at if isinstance(at[key], dict) and "of_lossless" in at[key]), key=float)
        axes.plot(losses, [100 * at[key]["of_lossless"] for key in losses], "o-", label=f"{workers} workers")
    axes.plot(losses, [100 * at[key]["ideal"] for key in losses], ":", color="black", linewidth=0.8, label="at most 1-p")
    axes.set_xlabel("frames lost each way, %")
    axes.set_ylabel("goodput, % of lossless")
    axes.set_title("With loss")
    return True


ROUTES = {"no aggregation": "#999999", "ATP, own rack": "#e69f00", "ATP, own or server's rack": "#cc79a7",
          "equal split, planned ways": "#56b4e9", "planned": "#d55e00"}


def routes(axes, results):
    """Rates of all schemes by workers."""
    runs = results.get("tally_routes", {}).get("runs")
    if not runs:
        return False
    runs = [run for run in runs if run["part"] == "against atp"]
    for unlike, style in ((False, "-"), (True, "--")):
        for scheme, colour in ROUTES.items():
            rates = {}
            for run in runs:
                if run["scheme"] == scheme and run["unlike"] == unlike:
                    rates.setdefault(run["workers"], []).append(run["measured_gbps"])
            points = sorted((workers, sum(of) / len(of)) for workers, of in rates.items())
            axes.plot(*zip(*points), "o" + style, color=colour, label=scheme + (", links 10 to 30" if unlike else ", links of 20"),
                      linewidth=2.5 if scheme == "planned" else 1)
    axes.set_xlabel("workers")
    axes.set_xticks(sorted({run["workers"] for run in runs}))
    axes.set_ylabel("Gbit/s of every worker, measured")
    axes.set_title("One job in a fat tree of 45 boxes, 4 servers")
    return True


def saved(axes, results):
    """How much less time than the better of ATP's two, each network by itself, beside what is printed."""
    routes_part = results.get("tally_routes", {})
    if not routes_part:
        return False
    runs = [run for run in routes_part["runs"] if run["part"] == "against atp"]
    for unlike, colour in ((False, "#0072b2"), (True, "#009e73")):
        places = {}
        for run in runs:
            if run["unlike"] == unlike:
                places.setdefault((run["workers"], run["seed"]), {})[run["scheme"]] = run["measured_gbps"]
        dots = [(workers, 100 * (1 - max(of["ATP, own rack"], of["ATP, own or server's rack"]) / of["planned"]))
                for (workers, _), of in places.items()]
        axes.scatter(*zip(*dots), s=18, color=colour, alpha=0.6)
        means = {workers: [less for at, less in dots if at == workers] for workers, _ in sorted(dots)}
        axes.plot(list(means), [sum(of) / len(of) for of in means.values()], color=colour,
                  label="links 10 to 30" if unlike else "links of 20")
    printed = sorted((int(workers), percent) for workers, percent in routes_part["printed"].items())
    axes.plot(*zip(*printed), "x:", color="black", label="printed")
    axes.axhline(50, color="black", linewidth=0.8, linestyle=":")
    axes.set_xlabel("workers")
    axes.set_xticks([workers for workers, _ in printed])
    axes.set_ylabel("communication time less than ATP's, %")
    axes.set_title("Planned against the better of ATP's two ways")
    return True


KEPT = {"oracle": ("#999999", ":"), "agreed": ("#d55e00", "-"), "written back": ("#0072b2", "-"), "random": ("#cc79a7", ":")}


def hot_rounds(axes, results):
    """Rounds per second over those with everything cold, by workers; rows of 16 values."""
    runs = results.get("tally_hot_rounds", {}).get("runs")
    if not runs:
        return False
    places = [(zipf, short) for zipf in (1.2, 0.6) for short in ("threads", "links")]
    for at, (zipf, short) in enumerate(places):
        for kept, (colour, style) in KEPT.items():
            points = sorted((run["workers"], run["gain"]) for run in runs if run["table"] == "headline" and run["width"] == 16
                            and run["zipf"] == zipf and run["short_of"] == short and run["kept"] == kept)
            axes.plot([4 * at + i for i in range(len(points))], [gain for _, gain in points], "o" + style, color=colour,
                      label=("agreed, kept by the workers" if kept == "agreed" else kept) if at == 0 else None)
    workers = sorted({run["workers"] for run in runs if run["table"] == "headline"})
    axes.set_xticks([4 * at + i for at in range(len(places)) for i in range(len(workers))],
                    [f"{n}" + (f"\nZipf {zipf},\n{short}" if i == len(workers) // 2 else "")
                     for zipf, short in places for i, n in enumerate(workers)])
    axes.plot([0, 2, 4, 6], [1.5, 2.5, 1.5, 2.5], "x", color="black", label="goal, 8 and 32 workers")
    axes.axhline(1, color="black", linewidth=0.8, linestyle=":", label="everything cold")
    axes.set_xlabel("workers; what servers are short of")
    axes.set_ylabel("rounds per second, x cold")
    axes.set_title("30,000 of 1,000,000 keys hot, rows of 16 values, one server")
    return True


PLOTS = {"loop": loop, "pipeline": pipeline, "cores": cores, "rings": rings, "loss": loss, "routes": routes, "routes_saved": saved,
         "hot_rounds": hot_rounds}


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
        made = filter(None, (run.get("cpu"), run.get("commit"), run.get("date", "")[:10]))  # nothing in virtual time
        figure.text(0.99, 0.01, ", ".join(made), ha="right", fontsize="x-small")
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        return True
    finally:
        pyplot.close(figure)
