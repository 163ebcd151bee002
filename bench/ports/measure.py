"""Runs inside a rack: one driver's contenders in turn. Prints one object of figures.

   measure.py DRIVER ROUNDS HOSTS BUILD_DIR FILE
"""
import json
import os
import pathlib
import sys
import tempfile
import time

from contenders import BOX, Generator, Tallyd, Testpmd
from ends import Host, NoFigure, Process, die_with_parent

SIZES = (60, 1514)  # without the checksum of the frame: 64 and 1,518 on a wire
SETTLE = 0.15       # seconds
MEASURED = 0.8
ATTEMPTS = 3
LEAST_PER_S = 1000  # frames; with fewer something else is measured
SUM_BYTES = 1 << 20
ITERATIONS = 400
WARM_UP = 2


class Rack:
    def __init__(self, driver, files, build, scratch):
        self.driver, self.build, self.scratch = driver, build, scratch
        self.hosts = [Host(index, file) for index, file in enumerate(files)]
        self.cpus = sorted(os.sched_getaffinity(0))
        self.taken = 0
        for index in range(len(files)):
            pathlib.Path(f"/proc/sys/net/ipv6/conf/port{index}/disable_ipv6").write_text("1")

    def take_ports(self):
        self.taken += 2
        return self.taken - 2


def forward(forwarder, generator, size):
    """As pass_frames(). A generator was once seen not to send for a whole window: tried again, and said."""
    for _ in range(ATTEMPTS):
        seconds, sent, received, cpu = pass_frames(forwarder, generator, size)
        if sent > LEAST_PER_S * seconds and received > LEAST_PER_S * seconds:
            return {"offered_per_s": sent / seconds, "forwarded_per_s": received / seconds, "share": received / sent,
                    "cpu_ns": cpu / received}
        print(f"bench-ports: {forwarder.name} forwarded {received} frames of {sent} in {seconds:.2f} s; again",
              file=sys.stderr)
    raise NoFigure(f"{forwarder.name} forwarded {received} frames of {sent}; its generator said:\n"
                   f"{generator.process.said()[-1000:]}")


def pass_frames(forwarder, generator, size):
    """Seconds, frames that host a sent and that arrived at host b meanwhile, CPU time in ns."""
    def now():
        return time.monotonic(), forwarder.a.packets()[1], forwarder.b.packets()[0], forwarder.process.cpu_ns()
    forwarder.go_on()
    generator.start(size)
    time.sleep(SETTLE)
    before = now()
    time.sleep(MEASURED)
    seconds, sent, received, cpu = (late - early for late, early in zip(now(), before))
    generator.stop()
    forwarder.rest()
    return seconds, sent, received, cpu


def hertz(counted):
    """Of the counter of cycles."""
    return counted.cores[0]["cycles"] / (counted.stats["uptime_ns"] * 1e-9)


def add_up(box, rack):
    """One job of two workers over udp, on the generators' CPU."""
    box.go_on()
    time.sleep(SETTLE)  # the turn in which it was stopped counts as busy until now
    before = box.count()
    file = pathlib.Path(rack.scratch, "perf.json")
    workers = []
    for rank, host in enumerate((box.a, box.b)):
        variables = {"TALLY_JOB": "bench", "TALLY_SWITCH": BOX, "TALLY_WORLD": "2", "TALLY_RANK": str(rank),
                     "TALLY_TRANSPORT": "udp"}
        workers.append(Process(rack.scratch, f"worker{rank}", [
            *host.inside, rack.build / "host/perf/tally-perf", "-b", SUM_BYTES, "-e", SUM_BYTES, "-n", ITERATIONS, "-w", WARM_UP,
            "-d", "int32", *(["--json", file] if rank == 0 else [])], rack.cpus[:1], variables))
    used = [0] * len(workers)
    try:
        while any(worker.process.poll() is None for worker in workers):
            used = [max(before, library_ns(worker, rank)) for rank, (before, worker) in enumerate(zip(used, workers))]
            time.sleep(0.02)
        for worker in workers:
            worker.end_well()
    finally:
        for worker in workers:
            worker.close()
    after = box.count()
    box.rest()
    perf = json.loads(file.read_text())
    row = perf["rows"][0]
    if row["wrong"]:
        raise NoFigure(f"{row['wrong']} sums are wrong")
    chunks = -(-row["bytes"] // 4 // perf["elements"])
    gigabytes = SUM_BYTES * (ITERATIONS + WARM_UP) * 1e-9
    frames = after.core("frames_in") - before.core("frames_in")
    return {"worker_s_per_gb": sum(used) * 1e-9 / len(used) / gigabytes, "frames_per_gb": frames / gigabytes,
            "contributions_per_s": 2 * chunks / (row["us"]["avg"] * 1e-6), "algbw_gbytes_s": row["algbw_gbytes_s"],
            "retransmissions": row["retransmissions"],
            "busy_cycles": (after.core("busy_cycles") - before.core("busy_cycles")) / frames}


def library_ns(worker, rank):
    """What libtally's thread of a worker has used; its program's own fills and checks arrays. 0: it is gone."""
    try:
        for task in pathlib.Path(f"/proc/{worker.pid}/task").iterdir():
            if (task / "comm").read_text().strip() == f"tally-{rank}":
                return int((task / "schedstat").read_text().split()[0])
    except OSError:
        pass
    return 0


def measure(rack, rounds, processes):
    contenders = []
    for make in (lambda: Tallyd(rack, "poll", "poll"), lambda: Tallyd(rack, "adaptive", "adaptive"),
                 lambda: Testpmd(rack, "testpmd"), lambda: Tallyd(rack, "sums", "poll")):
        contenders.append(make())
        processes.append(contenders[-1].process)
        contenders[-1].rest()
    forwarders, box = contenders[:-1], contenders[-1]
    generators = []
    for forwarder in forwarders:
        generators.append(Generator(rack, forwarder))
        processes.append(generators[-1].process)
    figures = {"forwarding": [], "aggregation": []}
    for _ in range(rounds):
        for size in SIZES:
            for forwarder, generator in zip(forwarders, generators):
                figures["forwarding"].append(
                    {"size": size, "by": forwarder.name, **forward(forwarder, generator, size)})
        figures["aggregation"].append(add_up(box, rack))
    forwarders[0].go_on()
    rate = hertz(forwarders[0].count())
    for one in figures["aggregation"]:
        one["box_ns_per_frame"] = one.pop("busy_cycles") / rate * 1e9
        one["box_s_per_gb"] = one["box_ns_per_frame"] * 1e-9 * one.pop("frames_per_gb")
    return figures


def main():
    die_with_parent()
    driver, rounds, hosts, build, file = sys.argv[1:]
    processes = []
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as scratch:
        rack = Rack(driver, hosts.split(","), pathlib.Path(build).resolve(), scratch)
        try:
            figures = measure(rack, int(rounds), processes)
        except NoFigure as reason:
            sys.exit(f"bench-ports: {driver}: {reason}")
        finally:
            for process in processes:
                process.close()
    pathlib.Path(file).write_text(json.dumps(figures))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
