"""tally-perf pairs through one tallyd, in turn: sizes, windows, or builds of the library beside each other. Writes the rows
of all rounds.

   measure_worker.py memif|af_packet HOSTS PLAN BUILD_DIR FILE    (HOSTS: of the rack; '-' with memif)
"""
import json
import os
import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "ports"))
from ends import NoFigure, Process, die_with_parent  # noqa: E402  pylint: disable=wrong-import-position

BOX = "10.0.0.1"
RANKS = 2
PATIENCE = 1800  # seconds for one pair


class Bench:
    """tallyd with a job for each window, idle: adaptive; the workers are wherever the scheduler puts them."""

    def __init__(self, kind, files, build, scratch, windows, loss):
        self.kind, self.build, self.scratch, self.files = kind, build, scratch, files
        self.socket = f"socket={scratch}/memif.sock,socket-abstract=no"
        cpus = sorted(os.sched_getaffinity(0))
        lines = [f"instance: worker{os.getpid()}",
                 f"dataplane: {{cores: [{cpus[-1]}], memory: 256MiB, slots: 64MiB, hugepages: off}}",
                 f"box: {{ipv4: {BOX}/24}}", "ports:"]
        for rank in range(RANKS):
            device = f"net_memif{rank},role=server,id={rank},{self.socket}"
            if kind != "memif":
                device = f"net_af_packet{rank},iface=port{rank}"
                pathlib.Path(f"/proc/sys/net/ipv6/conf/port{rank}/disable_ipv6").write_text("1")
            impair = f", impair: {{loss: {loss}%, seed: {rank + 1}}}" if loss else ""
            lines.append(f'  - {{name: p{rank}, device: "{device}"{impair}}}')
        lines.append("jobs:")
        lines += [f"  - {{name: w{window}, workers: {RANKS}, window: {window}, token_file: none}}" for window in windows]
        path = pathlib.Path(scratch, "tallyd.yaml")
        path.write_text("\n".join(lines) + "\n")
        self.box = Process(scratch, "tallyd", [build / "control/tallyd", "--config", path])
        self.box.wait_for("'ready'", lambda: "ready: " in self.box.said())

    def variables(self, rank, window, library, idle):
        settings = {"TALLY_JOB": f"w{window}", "TALLY_SWITCH": BOX, "TALLY_WORLD": str(RANKS), "TALLY_RANK": str(rank),
                    "TALLY_IDLE": idle, "TALLY_DEBUG": "INFO"}
        if self.kind == "memif":
            settings |= {"TALLY_TRANSPORT": f"dpdk:net_memif0,role=client,id={rank},{self.socket}",
                         "TALLY_ADDRESS": f"10.0.0.{10 + rank}/24"}
        if library:
            settings["LD_LIBRARY_PATH"] = library
        return settings

    def words(self, rank):
        return [] if self.kind == "memif" else ["nsenter", f"--net={self.files[rank]}", "--"]

    def pair(self, program, plan, window, library, idle):
        """What both ranks of a program wrote, and the last line of the first."""
        with tempfile.TemporaryDirectory(dir=self.scratch) as scratch:
            files = [pathlib.Path(scratch, f"{rank}.json") for rank in range(RANKS)]
            ranks = [Process(scratch, f"rank{rank}", [*self.words(rank), self.build / program, *plan, "--json", files[rank]],
                             environment=self.variables(rank, window, library, idle)) for rank in range(RANKS)]
            try:
                for rank in ranks:
                    rank.end_well(PATIENCE)
            finally:
                for rank in ranks:
                    rank.close()
            said = ranks[0].said()
            return [json.loads(file.read_text()) for file in files if file.exists()], said[said.rfind(": end, "):].strip()

    def run(self, part, plan, *how):
        """One round of one combination."""
        if part == "steps":
            wrote, end = self.pair("bench/worker/tally_operation_bench", plan, *how)
            figures = {"steps": seen_by_all(wrote)} if "--watch" not in plan else {"calls": wrote[0]}
        else:
            wrote, end = self.pair("host/perf/tally-perf", plan, *how)
            figures = {"rows": wrote[0]["rows"]}
            if any(row["wrong"] for row in figures["rows"]):
                raise NoFigure("sums are wrong")
        return dict(zip(("window", "library", "idle"), how)) | {"plan": plan, "end": end} | figures


STEPS = {  # between which moments of a row; all_sent: of the rank that was last
    "submit": ("called", "submitted"), "hand over": ("submitted", "lent"), "make and send": ("lent", "first_sent"),
    "round trip of exponents": ("first_sent", "last_sent"), "wait for the other rank": ("last_sent", "all_sent"),
    "box and way back": ("all_sent", "last_found"), "of it not looked": ("last_empty", "last_found"),
    "take": ("last_found", "last_taken"), "wake-up": ("last_taken", "returned")}


def seen_by_all(ranks):
    """Of the rows that tally_operation_bench of all ranks wrote (their clock is the same): the median time of an operation,
    and the steps' means over the middle half, so that they add up to about that. us."""
    rows = []
    for of_ranks in zip(*(rank["rows"] for rank in ranks)):
        of_ranks = [dict(zip(rank["columns"], row)) for rank, row in zip(ranks, of_ranks)]
        all_sent = max(row["last_sent"] for row in of_ranks)
        rows += [row | {"all_sent": all_sent} for row in of_ranks if not any(row["sent_again"] for row in of_ranks)]
    rows.sort(key=lambda row: row["returned"] - row["called"])
    middle = rows[len(rows) // 4:len(rows) * 3 // 4]
    means = {name: statistics.mean(row[end] - row[begin] for row in middle) / 1000 for name, (begin, end) in STEPS.items()}
    whole = middle[len(middle) // 2]
    return {"whole": (whole["returned"] - whole["called"]) / 1000} | means


def main():
    die_with_parent()
    kind, files, plan, build, file = sys.argv[1:]
    plan = json.loads(plan)
    with tempfile.TemporaryDirectory(prefix="tally-worker-") as scratch:
        try:
            busy = [Process(scratch, f"busy{i}", [sys.executable, "-c", "while True: pass"]) for i in range(plan["busy"])]
            bench = Bench(kind, files.split(","), pathlib.Path(build).resolve(), scratch, plan["windows"],
                          plan["loss"])
            try:
                runs = [bench.run(plan["part"], words, window, library, idle) | {"round": turn}
                        for turn in range(plan["rounds"]) for words in plan["words"] for window in plan["windows"]
                        for idle in plan["idle"] for library in plan["libraries"]]
            finally:
                bench.box.close()
                for process in busy:
                    process.close()
        except NoFigure as reason:
            sys.exit(f"bench-worker: {kind}: {reason}")
    pathlib.Path(file).write_text(json.dumps(runs))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
