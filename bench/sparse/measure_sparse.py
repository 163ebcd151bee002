"""A part of tools/bench-sparse: in the namespace of the box of a shaped rack, one world and one type."""
import json
import os
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path += [str(HERE.parent / "ports"), str(HERE.parent / "rings"), str(HERE.parents[1] / "tests" / "process")]
import ring_jobs  # noqa: E402  pylint: disable=wrong-import-position
from ends import NoFigure, Process, die_with_parent  # noqa: E402  pylint: disable=wrong-import-position
from shaped_rack import BOX, JOB, BehindBridges, ShapedRack, machine_ns  # noqa: E402  pylint: disable=wrong-import-position


def sums(rack, kind, size, rounds, cases):
    """The rows that rank 0 wrote: all ranks wait for one another before and behind each."""
    with tempfile.TemporaryDirectory(dir=rack.scratch) as scratch:
        file = pathlib.Path(scratch, "sparse.json")
        ranks = []
        for host in rack.hosts:
            variables = {"TALLY_JOB": JOB, "TALLY_SWITCH": BOX, "TALLY_WORLD": str(len(rack.hosts)),
                         "TALLY_RANK": str(host.index), "TALLY_TRANSPORT": os.environ.get("TALLY_TRANSPORT", "udp")}
            words = [*host.inside, rack.build / "bench/sparse/tally_sparse_rank", "--type", kind, "--bytes", size,
                     "--rounds", rounds, "--cases", cases]
            ranks.append(Process(scratch, f"rank{host.index}", words + (["--json", file] if host.index == 0 else []),
                                 environment=variables))
        ring_jobs.run_all(ranks)
        return json.loads(file.read_text())


def main():
    die_with_parent()
    hosts, build, rate, queue, window, kind, size, rounds, cases, file = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="tally-sparse-") as scratch:
        try:
            rack = ShapedRack(hosts.split(","), pathlib.Path(build).resolve(), scratch, float(rate), int(queue))
            box = BehindBridges(rack, "box", window=int(window))
            try:
                busy, every = machine_ns()
                rows = sums(rack, kind, size, rounds, cases)
                busy_after, every_after = machine_ns()
                drops = rack.queue_drops()
            finally:
                box.close()
        except NoFigure as reason:
            sys.exit(f"bench-sparse: {reason}")
    share = (busy_after - busy) / max(1, every_after - every)
    pathlib.Path(file).write_text(json.dumps({"rows": rows, "cpu_share": share, "queue_drops": drops}))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
