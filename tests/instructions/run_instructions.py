"""Counts the instructions of a packet under callgrind and compares them with the tables below.

run_instructions.py PROGRAM [LOOP WORKER] [--functions]

PROGRAM is tally_instructions, LOOP tally_loop_bench, WORKER tally_worker_instructions. Ends with 0, with 1 if a row takes more than its limit, with 77
if there is no valgrind. --functions: also the dearest functions of each row.
"""

import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# Instructions of a packet outside the kernels (values, CRC), g++ 12 -O3, as a mean of the row's packets; the same on
# any machine. A limit is what was counted and some 3 %. First the pipeline by itself.
LIMITS = {
    "absorbed": 450,
    "replay": 535,
    "completed": 750,
    "repeat": 675,
    # Of a job with shared slots and an external server; then of one over two boxes, where an entry leaves as PARTIAL, and
    # what is not added here is passed on.
    "shared absorbed": 765,
    "shared completed": 1010,
    "planned absorbed": 775,
    "planned left": 1175,
    "planned passed on": 705,
}
# Of a contribution to the whole loop of a data core with 8 members, of which one in 8 completes its chunk and is sent
# to all: without what stands for the driver.
LOOP_LIMITS = {
    "multicast": 620,
    "unicast": 740,
}
# Of a chunk of 256 values in the engine of a worker, sent and received: where zeros may not be left out, where they are
# looked for and there are none, and where all are. With the kernels a chunk takes up to 1.4 times as many: these limits
# are what was counted and some 2 %, so that 3 % of the whole are always seen.
WORKER_LIMITS = {
    "int32": 2890,
    "float32": 3345,
    "int32, looking": 2920,
    "float32, looking": 3375,
    "int32, zeros": 1470,
    "float32, zeros": 1835,
}
COUNTED = ["tally::*::counted(*"]
COUNTED_LOOP = ["tally::bench::LoopRig::turn_rings*"]
COUNTED_WORKER = ["tally::engine::WorkerEngine::transmit(*Destination&)", "tally::engine::WorkerEngine::receive(*"]
KERNELS = re.compile(r"((void|bool|\S+::Added) )?tally::kernels::")
VALUES = re.compile(r".*::SwitchKernels<")  # one call for each contribution
DATA_CORE = re.compile(r"(\S+ )?tally::(pipeline|io|dpdk|jobs)::")


def profile_of(program, arguments, counted, folder):
    """Runs it: what it printed, the instructions of each function itself, and how often each was called."""
    profile = pathlib.Path(folder) / "profile"
    out = subprocess.run(
        ["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no", "--collect-atstart=no",
         *(f"--toggle-collect={function}" for function in counted), f"--callgrind-out-file={profile}", program, *arguments],
        capture_output=True, text=True, check=False)
    if out.returncode != 0:
        sys.exit(f"run_instructions: {' '.join(arguments)}: {out.stderr}")
    costs, calls = collections.Counter(), collections.Counter()
    function = callee = None
    called = False
    for line in profile.read_text().splitlines():
        if line.startswith("fn="):
            function = line[3:]
        elif line.startswith("cfn="):
            callee = line[4:]
        elif line.startswith("calls="):
            calls[callee] += int(line[6:].split()[0])
            called = True
        elif re.match(r"[+\-*\d]", line):
            if not called:
                costs[function] += int(line.split()[1])
            called = False  # the line behind `calls=` is what the callee took
    return out.stdout, costs, calls


def total(costs, which):
    return sum(cost for function, cost in costs.items() if which(function))


def count(program, row, folder, counted=COUNTED):
    """Of a row of the pipeline: instructions of a packet outside kernels, in them, and of each function."""
    printed, costs, _ = profile_of(program, [row], counted, folder)
    packets = int(printed)
    kernels = total(costs, KERNELS.match)
    return (sum(costs.values()) - kernels) / packets, kernels / packets, packets, costs


def count_loop(program, row, folder):
    """The same of a row of the loop; warming up is counted too."""
    _, costs, calls = profile_of(
        program, ["--rounds", "1", "--members", "8", "--elements", "256", "--only", row], COUNTED_LOOP, folder)
    packets = total(calls, VALUES.match)
    return total(costs, DATA_CORE.match) / packets, total(costs, KERNELS.match) / packets, packets, costs


def count_worker(program, row, folder):
    """The same of a row of a worker and a chunk; joining is counted too."""
    return count(program, row, folder, COUNTED_WORKER)


def main(program, *options):
    if shutil.which("valgrind") is None:
        print("skipped: valgrind is not installed")
        return 77
    others = [option for option in options if option != "--functions"]
    over = []
    print(f"{'instructions of a packet':25} {'outside':>8} {'limit':>6} {'kernels':>8}")
    with tempfile.TemporaryDirectory() as folder:
        rows = [(row, limit, count, program) for row, limit in LIMITS.items()]
        if others:
            loop, worker = others
            rows += [(row, limit, count_loop, loop) for row, limit in LOOP_LIMITS.items()]
            rows += [(row, limit, count_worker, worker) for row, limit in WORKER_LIMITS.items()]
        for name, limit, measure, what in rows:
            outside, kernels, packets, costs = measure(what, name, folder)
            print(f"{name:25} {outside:8.1f} {limit:6} {kernels:8.1f}", flush=True)
            if not 0 < outside <= limit:
                over.append(name)
            if "--functions" in options:
                for function, cost in costs.most_common(20):
                    print(f"  {cost / packets:8.1f} {function[:150]}")
    if over:
        print("over the limit:", ", ".join(over))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
