"""Runs inside a rack: the contenders of one part in turn. Writes one object of figures.

   measure_rings.py PART WORKERS' HOSTS BUILD_DIR RATE QUEUE MEBIBYTES ROUNDS FILE
"""
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "ports"), str(HERE.parents[1] / "tests" / "process")]
import ring_jobs  # noqa: E402  pylint: disable=wrong-import-position
from ends import NoFigure, die_with_parent  # noqa: E402  pylint: disable=wrong-import-position
from retry_watch import RetryWatch  # noqa: E402  pylint: disable=wrong-import-position
from shaped_rack import Bridge, ShapedRack, Switch  # noqa: E402  pylint: disable=wrong-import-position

SMALL = (4, 64, 1024, 4096, 16384, 65536)  # bytes
LOSSES = (0.0, 0.1, 1.0, 5.0, 10.0)  # percent, each way
RINGS = {"gloo": ["bench/rings/tally_gloo_ring"], "mpi": ["bench/rings/tally_mpi_ring"],
         "tally_mpi": ["bench/rings/tally_mpi_ring", "host/mpi/libtally_mpi_mpich.so"]}


def built(rack, name):
    return all(os.access(rack.build / file, os.X_OK) for file in RINGS[name])


def rings(rack, plan, rounds):
    """name -> rows, one for each round. All through one tallyd that keeps running."""
    contenders = ["tally"] + [name for name in RINGS if built(rack, name)]
    rows = {name: [] for name in contenders}
    box = Switch(rack, "box")
    try:
        for _ in range(rounds):
            for name in contenders:
                before = rack.queue_drops()
                row = ring_jobs.with_cpu(getattr(ring_jobs, name), rack, plan)
                row["queue_drops"] = [late - early for late, early in zip(rack.queue_drops(), before)]
                rows[name].append(row)
    finally:
        box.close()
    return rows


def retried(rack, plan):
    """tally() with the chunks that somebody sent again. Barriers and warm-up are chunks, too."""
    with RetryWatch() as watch:
        row = ring_jobs.with_cpu(ring_jobs.tally, rack, plan)
    chunks = (plan.iterations + plan.warm_up) * (row["chunks"] + 1)
    row["retried_share"] = len(watch.chunks) / chunks
    row["again_share"] = row["retransmissions"] / (plan.iterations * row["chunks"] * len(rack.hosts))
    return row


def losses(rack, plan, rounds):
    """loss in percent -> rows. A tallyd for each."""
    rows = {loss: [] for loss in LOSSES}
    for turn in range(rounds):
        for loss in LOSSES:
            box = Switch(rack, f"loss{loss}.{turn}", loss, seed=1000 * turn)
            try:
                rows[loss].append(retried(rack, plan))
            finally:
                box.close()
    return rows


def ddp(rack, plan, rounds):
    """way -> rows, in turn, through one tallyd."""
    rows = {way: [] for way in ("gloo", "int32", "int16")}
    box = Switch(rack, "box")
    try:
        for _ in range(rounds):
            for way, of_way in rows.items():
                of_way.append(ring_jobs.with_cpu(ring_jobs.ddp, rack, plan, way))
    finally:
        box.close()
    return rows


def unshaped(rack, plan, rounds):
    """name -> rows. Each with a switch of its own: tallyd's port drivers, or the kernel's bridge."""
    ways = {"tally_xdp": (ring_jobs.tally, lambda name: Switch(rack, name, driver="af_xdp")),
            "tally": (ring_jobs.tally, lambda name: Switch(rack, name))}
    if built(rack, "gloo"):
        ways["gloo_bridge"] = (ring_jobs.gloo, lambda _: Bridge(rack))
        ways["gloo"] = (ring_jobs.gloo, lambda name: Switch(rack, name))
    rows = {name: [] for name in ways}
    for turn in range(rounds):
        for name, (job, switch) in ways.items():
            between = switch(f"{name}.{turn}")
            try:
                rows[name].append(ring_jobs.with_cpu(job, rack, plan))
            finally:
                between.close()
    return rows


def small(rack, plan, rounds):
    """way -> bytes -> rows: operations of a few bytes, whose time is that of their round trips."""
    ways = {"tally_xdp": (ring_jobs.tally, lambda name: Switch(rack, name, driver="af_xdp")),
            "tally": (ring_jobs.tally, lambda name: Switch(rack, name))}
    if built(rack, "gloo"):
        ways["gloo"] = (ring_jobs.gloo, lambda _: Bridge(rack))
    if built(rack, "mpi"):
        ways["mpi"] = (lambda *of: ring_jobs.mpi(*of, algorithm="auto"), lambda _: Bridge(rack))
    if built(rack, "tally_mpi"):
        ways["tally_mpi"] = (ring_jobs.tally_mpi, lambda name: Switch(rack, name, driver="af_xdp"))
    rows = {name: {size: [] for size in SMALL} for name in ways}
    for turn in range(rounds):
        for name, (job, switch) in ways.items():
            between = switch(f"{name}.{turn}")
            try:
                for size in SMALL:
                    rows[name][size].append(job(rack, plan.of(size)))
            finally:
                between.close()
    return rows


def main():
    die_with_parent()
    part, hosts, build, rate, queue, mebibytes, rounds, file = sys.argv[1:]
    # Of small arrays, the time of one is that of its round trips: many of them.
    plan = ring_jobs.Plan(float(mebibytes), 5 if part == "ddp" else 3 if float(mebibytes) >= 1 else 200, 1)
    with tempfile.TemporaryDirectory(prefix="tally-rings-") as scratch:
        try:
            rack = ShapedRack(hosts.split(","), pathlib.Path(build).resolve(), scratch, float(rate), int(queue))
            rows = {"rings": rings, "loss": losses, "unshaped": unshaped, "small": small, "ddp": ddp}[part](rack, plan, int(rounds))
        except NoFigure as reason:
            sys.exit(f"bench-rings: {part}: {reason}")
    pathlib.Path(file).write_text(json.dumps(rows))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
