#!/usr/bin/python3
"""flood_rates.py BUILD [ROUNDS]: what floods cost a job of two beside 1,024 declared jobs.

As root. For each kind of flood, in turn and ROUNDS times (default 5): the job alone, the job while the box does with the
very same frames what costs least, and the job while they are what they are. Control packets of strangers: the box
forwards them to another host. Data packets of a tenant beyond its quotas: the box refuses them at the first look.
Prints its operations a second, and the last over the second: median, least and most of the rounds.
"""
import pathlib
import statistics
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "process"))

# pylint: disable=wrong-import-position
from box import Job  # noqa: E402
from floods import KINDS, TENANT_KINDS, CrowdedRack, turn_of_control  # noqa: E402
from lab import Lab  # noqa: E402
from programs import Programs  # noqa: E402
from socket_worker import start_sockets  # noqa: E402
from workers import UNTIL_TOLD, finish, go_on  # noqa: E402

SECONDS = 2.0
START = 0.7  # until the flood has begun


def operations(worker):
    """A second, over the time that is left of a flood."""
    def count():
        return len(worker.events("iteration"))

    first, begun = count(), time.monotonic()
    time.sleep(SECONDS)
    return (count() - first) / (time.monotonic() - begun)


def measured(rack, worker, kind, beside):
    """(operations a second of the victim, frames a second of the flood)."""
    flood = rack.flood(kind, START + SECONDS + 0.5, beside)
    time.sleep(START)
    rate = operations(worker)
    assert flood.wait(60) == 0, flood.complained()
    return rate, int(flood.said()) / (START + SECONDS + 0.5)


def spread(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    Programs.tallyd, Programs.worker = str(build / "control/tallyd"), str(build / "tests/process/tally_test_worker")
    lab = Lab()
    try:
        job = Job(workers=2, token="secret", lease="5s")
        rack = CrowdedRack(lab, job).start()
        workers = start_sockets(rack, job, f"--sizes 20000 {UNTIL_TOLD}")
        workers[0].wait_for("iteration", 5)
        found = {kind: [] for kind in KINDS + TENANT_KINDS}
        for _ in range(rounds):
            for kind, rows in found.items():
                alone = operations(workers[0])
                beside, _ = measured(rack, workers[0], kind, True)
                under, frames = measured(rack, workers[0], kind, False)
                rows.append((alone, beside, under, frames))
        go_on(workers)
        finish(workers)
        print("| flood | frames/s | job alone | frames forwarded or refused | frames as they are | the last two |")
        print("|---|---|---|---|---|---|")
        for kind, rows in found.items():
            alone, beside, under, frames = zip(*rows)
            ratio = [u / b for u, b in zip(under, beside)]
            print(f"| {kind} | {spread(frames, ',.0f')} | {spread(alone, '.0f')} | {spread(beside, '.0f')} | "
                  f"{spread(under, '.0f')} | {spread(ratio, '.2f')} |")
        print("control's turns: %d us of CPU each, the longest %d us" % turn_of_control(rack.stop()))
    finally:
        lab.close()


if __name__ == "__main__":
    main()
