"""One kind of port: a box and dpdk-testpmd at its far end in turn, tally-bench at the near one. Writes one object of
figures. Runs inside a rack, but for memif.

   box_rounds.py memif|af_packet|af_xdp ROUNDS SECONDS HOSTS BUILD_DIR FILE
"""
import json
import os
import pathlib
import re
import signal
import sys
import tempfile

from contenders import ADDED, ATTEMPTS, BOX
from ends import NoFigure, Process, die_with_parent, testpmd

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "process"))
import counters  # noqa: E402  pylint: disable=wrong-import-position

ELEMENTS = 256  # frames of 1,122 bytes
# Window x workers: 512 frames without an answer in each case, half of a memif's ring.
CASES = {"testpmd": {"workers": 8, "window": 64},
         "two": {"workers": 2, "window": 256, "results": "unicast"},
         "eight": {"workers": 8, "window": 64, "results": "multicast"}}


class Place:
    """The cable: what the box and the generator call their ends of it, and where the generator runs."""

    def __init__(self, kind, files, build, scratch):
        self.kind, self.build, self.scratch = kind, build, scratch
        self.cpus = sorted(os.sched_getaffinity(0))
        self.inside = []
        if kind == "memif":
            socket = f"socket={scratch}/memif.sock,socket-abstract=no,bsize=2048,rsize=10"
            self.far, self.far_added = f"net_memif0,role=server,id=0,{socket}", ""
            self.near = f"net_memif0,role=client,id=0,{socket}"
        else:
            self.far, self.far_added = f"net_{kind}0,iface=port0", ADDED[kind]
            self.near = "net_af_packet0,iface=eth0"
            self.inside = ["nsenter", f"--net={files[0]}", "--"]
            pathlib.Path("/proc/sys/net/ipv6/conf/port0/disable_ipv6").write_text("1")


def start_tallyd(place, case, number):
    name = f"box{number}"
    path = pathlib.Path(place.scratch, name + ".yaml")
    path.write_text("\n".join([
        f"instance: {name}.{os.getpid()}",
        f"dataplane: {{cores: [{place.cpus[-1]}], idle: poll, memory: 128MiB, slots: 16MiB, hugepages: off}}",
        "control: {socket: none}", f"box: {{ipv4: {BOX}/24}}", f'ports: [{{name: p, device: "{place.far}"}}]',
        f"jobs: [{{name: bench, workers: {case['workers']}, token_file: none, elements: {ELEMENTS}, "
        f"window: {case['window']}, results: {case['results']}}}]"]) + "\n")
    box = Process(place.scratch, name, [place.build / "control/tallyd", "--config", path, "--final-counters",
                                        path.with_suffix(".json")])
    box.wait_for("'ready'", lambda: "ready: " in box.said())
    return box


def start_testpmd(place, number):
    return testpmd(place.scratch, f"echo{number}", place.cpus[-1], [place.far + place.far_added],
                   ["--auto-start", "--forward-mode=macswap", "--record-core-cycles"])


def cycles_of(far, name):
    """Ends its work. TSC cycles per frame received, of turns that received some, since it started."""
    if name == "testpmd":
        far.line("stop")
        far.line("quit")
        far.end_well()  # it keeps what it says to itself until then
        found = re.search(r"CPU cycles/packet=([\d.]+) ", far.said())
        if not found:
            raise NoFigure(f"testpmd did not tell its cycles; it said:\n{far.said()}")
        return float(found.group(1))
    far.signal(signal.SIGTERM)
    far.end_well()
    counted = counters.of_file(far.path.with_suffix(".json"))
    return counted.core("busy_cycles") / counted.core("frames_in")


def generate(place, name, case, far, seconds):
    """tally-bench's figures of its one run."""
    file = pathlib.Path(place.scratch, "bench.json")
    words = [*place.inside, place.build / "bench/tool/tally-bench", "--port", place.near, "--workers", case["workers"],
             "--elements", ELEMENTS, "--cpu", place.cpus[0], "--memory", 128, "--seconds", seconds, "--pid", far.pid,
             "--json", file]
    words += ["--echo", "--window", case["window"]] if name == "testpmd" else ["--switch", BOX, "--address", "10.0.0.100/24"]
    words.append("--hold")
    bench = Process(place.scratch, "bench." + far.name, words)
    try:
        bench.wait_for("its run", lambda: re.search(r"^max ", bench.said(), re.M), 120)
        cycles = cycles_of(far, name)  # testpmd forgets a memif's counters with the connection
        bench.process.stdin.close()
        bench.end_well()
    finally:
        bench.close()
    written = json.loads(file.read_text())
    run = written["runs"][0]
    # Finished: whatever the far end was given and lost on its way in is not in it.
    finished = run["received"] if name == "testpmd" else run["chunks"] * case["workers"]
    return written["environment"], {
        "frames_per_s": finished / run["seconds"], "frames_per_cpu_s": finished / run["box_cpu_s"],
        "cpu_share": run["box_cpu_s"] / run["seconds"], "answers_per_s": run["received_per_s"],
        "full_share": run["full_share"], "late": run["late_chunks"], "p50_us": run["latency_ns"]["p50"] / 1e3,
        "p99_us": run["latency_ns"]["p99"] / 1e3, "cycles_per_frame": cycles, "longest_gap_ms": run["longest_gap_ns"] / 1e6}


def one_round(place, name, number, seconds):
    case = CASES[name]
    far = None
    for attempt in range(ATTEMPTS):  # contenders.Forwarder.start_in_the_end() says why
        try:
            far = start_testpmd(place, f"{number}.{attempt}") if name == "testpmd" else start_tallyd(
                place, case, f"{number}.{attempt}")
            break
        except NoFigure as reason:
            if "PACKET_FANOUT" not in str(reason) or attempt == ATTEMPTS - 1:
                raise
    try:
        return generate(place, name, case, far, seconds)
    finally:
        far.close()


def main():
    die_with_parent()
    kind, rounds, seconds, hosts, build, file = sys.argv[1:]
    results = {name: [] for name in CASES}
    environment = {}
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as scratch:
        place = Place(kind, hosts.split(","), pathlib.Path(build).resolve(), scratch)
        try:
            for number in range(int(rounds)):
                for name in CASES:
                    environment, figures = one_round(place, name, f"{name}{number}", float(seconds))
                    results[name].append(figures)
        except NoFigure as reason:
            sys.exit(f"bench-box: {kind}: {reason}")
    pathlib.Path(file).write_text(json.dumps({"environment": environment, "rounds": results}))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
