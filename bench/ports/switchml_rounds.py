"""Rounds of tools/bench-switchml: SwitchML's clients and native workers through one tallyd over one memif port each time,
in turn. Writes one object of figures.

   switchml_rounds.py ROUNDS SECONDS BUILD_DIR FILE
"""
import json
import os
import pathlib
import re
import signal
import sys
import tempfile

from ends import NoFigure, Process, die_with_parent

BOX, BOX_MAC = "10.0.0.254", "02:7a:11:00:00:fe"
ELEMENTS = 256
OPERATION = 512 * ELEMENTS  # values; of a client's, so many that windows are full nearly all the time
# Window x workers x threads: 512 frames without an answer in each case, half of a memif's ring.
CASES = {f"{who}{workers}": (who, workers, 512 // workers) for workers in (2, 8) for who in ("native", "clients")}
FIRST = {2: 11, 8: 21}  # hosts of the sessions


def member(workers, rank):
    number = FIRST[workers] + rank
    return f"{{rank: {rank}, mac: '02:00:00:00:00:{number:02x}', ipv4: 10.0.0.{number}}}"


def write_configuration(scratch, cpu, run):
    lines = [f"instance: sml{os.getpid()}",
             f"dataplane: {{cores: [{cpu}], idle: poll, memory: 256MiB, slots: 32MiB, hugepages: off}}",
             f"box: {{ipv4: {BOX}/24, mac: '{BOX_MAC}'}}",
             f'ports: [{{name: p, device: "net_memif0,role=server,id=0,{memif(scratch)}"}}]', "jobs:"]
    for workers in FIRST:
        window = 512 // workers
        lines += [f"  - {{name: native{workers}, workers: {workers}, token_file: none, elements: {ELEMENTS}, window: {window}}}",
                  f"  - {{name: clients{workers}, dialect: switchml, payload: {4 * ELEMENTS}, slots: {2 * window}, run: {run}, members: "
                  f"[{', '.join(member(workers, rank) for rank in range(workers))}]}}"]
    path = pathlib.Path(scratch, "box.yaml")
    path.write_text("\n".join(lines) + "\n")
    return path


def start_tallyd(scratch, build, cpu):
    path = write_configuration(scratch, cpu, 0)
    box = Process(scratch, "box", [build / "control/tallyd", "--config", path])
    box.wait_for("'ready'", lambda: "ready: " in box.said())
    return box


def begin_anew(scratch, cpu, box, run):
    """Each round's clients are other processes, which nothing in their packets tells."""
    write_configuration(scratch, cpu, run)
    box.signal(signal.SIGHUP)
    for workers in FIRST:
        words = f"job 'clients{workers}': running"
        box.wait_for(f"run {run}", lambda words=words: box.said().count(words) > run)


def memif(scratch):
    return f"socket={scratch}/memif.sock,socket-abstract=no,bsize=2048,rsize=10"


def figures_of(frames, run):
    return {"frames_per_s": frames / run["seconds"], "frames_per_cpu_s": frames / run["box_cpu_s"], "resent": run["resent"]}


def native(scratch, build, cpu, box, workers, seconds):
    """Contributions that had a result, of tally-bench's workers; and the environment."""
    file = pathlib.Path(scratch, "bench.json")
    bench = Process(scratch, "bench", [
        build / "bench/tool/tally-bench", "--port", f"net_memif0,role=client,id=0,{memif(scratch)}", "--workers", workers,
        "--elements", ELEMENTS, "--job", f"native{workers}", "--switch", BOX, "--address", "10.0.0.100/24", "--cpu", cpu,
        "--memory", 128, "--seconds", seconds, "--pid", box.pid, "--json", file])
    try:
        bench.end_well()
    finally:
        bench.close()
    written = json.loads(file.read_text())
    run = written["runs"][0]
    return figures_of(run["chunks"] * workers, run), written["environment"]


def clients(scratch, build, cpu, box, workers, window, seconds):
    """The same of SwitchML's clients; making values and checking sums is not in it."""
    file = pathlib.Path(scratch, "clients.json")
    repeat = max(1, round(seconds * 600_000 / (OPERATION // ELEMENTS) / workers))
    number = FIRST[workers]
    program = Process(scratch, "clients", [
        build / "bench/switchml/tally_switchml_clients", "--port", f"net_memif0,role=client,id=0,{memif(scratch)}",
        "--workers", workers, "--window", window, "--payload", 4 * ELEMENTS, "--switch", BOX, "--switch-mac", BOX_MAC,
        "--mac", f"02:00:00:00:00:{number:02x}", "--address", f"10.0.0.{number}", "--timeout", 3, "--unjudged",
        "--operations", f"int32:{OPERATION}", "--repeat", repeat, "--cpu", cpu, "--memory", 128, "--pid", box.pid,
        "--json", file])
    try:
        program.end_well(120)
    finally:
        program.close()
    session = json.loads(file.read_text())["sessions"][0]
    return figures_of(session["answered"], session)


def main():
    die_with_parent()
    rounds, seconds, build, file = int(sys.argv[1]), float(sys.argv[2]), pathlib.Path(sys.argv[3]).resolve(), sys.argv[4]
    cpus = sorted(os.sched_getaffinity(0))
    results = {name: [] for name in CASES}
    environment = {}
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as scratch:
        box = None
        try:
            box = start_tallyd(scratch, build, cpus[-1])
            for run in range(rounds):
                if run > 0:
                    begin_anew(scratch, cpus[-1], box, run)
                for name, (who, workers, window) in CASES.items():
                    if who == "native":
                        figures, environment = native(scratch, build, cpus[0], box, workers, seconds)
                    else:
                        figures = clients(scratch, build, cpus[0], box, workers, window, seconds)
                    results[name].append(figures)
            box.signal(signal.SIGTERM)
            box.end_well()
        except NoFigure as reason:
            sys.exit(f"bench-switchml: {reason}")
        finally:
            if box:
                box.close()
    pathlib.Path(file).write_text(json.dumps({"environment": environment, "rounds": results}))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
