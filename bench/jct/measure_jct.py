"""Runs inside a rack: the jobs of a plan over running daemons, one row (a discipline) after the other, in turn. Writes, by
row, the rounds: each job's time in u, what was sent again and what servers had to sum.

   measure_jct.py HOSTS BUILD_DIR PLAN.json ROUNDS FILE

The first hosts are workers, rank by rank of job by job; the last ones servers, one of each job. PLAN.json is the plan of
tally_experiment with `u_ns`, `rate_mbit_s`, `server_rate_mbit_s`, `queue_kib` and `rows` beside it.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / place) for place in ("ports", "rings", "../tests/process")]
from ends import NoFigure, Process, die_with_parent  # noqa: E402  pylint: disable=wrong-import-position
from shaped_rack import BOX, ShapedRack, Switch  # noqa: E402  pylint: disable=wrong-import-position

PATIENCE = 120  # seconds for a round
AHEAD_NS = 300_000_000  # between the word that all have joined and the common beginning


class JctSwitch(Switch):
    """tallyd with the plan's jobs under one discipline."""

    def __init__(self, rack, name, plan, row):
        self.plan, self.row = plan, row
        super().__init__(rack, name, window=plan["window"])

    def introduce(self):
        """Nobody speaks to anybody but the box."""

    def jobs_yaml(self, window):
        row, plan = self.row, self.plan
        lines = []
        for job in plan["jobs"]:
            keys = {"name": job["name"], "workers": plan["world"], "window": window, "priority": 100, "token_file": "none",
                    "discipline": row["discipline"], "server": "external", "lease": "30s"}
            if row["discipline"] == "preemptive":
                keys["decay"] = row["decay"]
            lines.append("  - {" + ", ".join(f"{key}: {value}" for key, value in keys.items()) + "}")
        return "jobs:\n" + "\n".join(lines)

    def dataplane_yaml(self):
        return f", shared: {{slots: {self.plan['slots']}, elements: 352}}"


def started(process, text):
    process.wait_for(f"'{text}'", lambda: text in process.said())


def run_round(rack, plan, row, name):
    """Its job times."""
    jobs, world = plan["jobs"], plan["world"]
    processes = []
    box = JctSwitch(rack, name, plan, row)
    with tempfile.TemporaryDirectory(dir=rack.scratch) as scratch:
        file = pathlib.Path(scratch, "plan.json")
        file.write_text(json.dumps(plan))
        try:
            for number, job in enumerate(jobs):
                host = rack.hosts[len(jobs) * world + number]
                processes.append(Process(scratch, f"server{number}", [
                    *host.inside, rack.build / "host/ps/tally-ps", "--box", BOX, "--job", job["name"]]))
            ranks = []
            for number, job in enumerate(jobs):
                for rank in range(world):
                    host = rack.hosts[number * world + rank]
                    variables = {"TALLY_JOB": job["name"], "TALLY_SWITCH": BOX, "TALLY_WORLD": str(world), "TALLY_RANK": str(rank),
                                 "TALLY_TRANSPORT": "udp"}
                    ranks.append(Process(scratch, f"{job['name']}.{rank}", [
                        *host.inside, rack.build / "bench/jct/tally_training_rank", file, number], environment=variables))
            processes += ranks
            for rank in ranks:
                started(rank, "joined")
            before = rack.queue_drops()
            begin = time.monotonic_ns() + AHEAD_NS
            for rank in ranks:
                rank.line(str(begin))
            for rank in ranks:
                rank.end_well(PATIENCE)
            said = [rank.said().split("finished ")[1].split() for rank in ranks]
            counted = box.count()
        except subprocess.TimeoutExpired as late:
            raise NoFigure(f"{row['name']}: a job did not end within {PATIENCE} s") from late
        finally:
            for process in processes:
                process.close()
            box.close()
    if any(int(words[1]) for words in said):
        raise NoFigure(f"{row['name']}: wrong sums")
    times = [max(int(words[0]) for words in said[job * world:(job + 1) * world]) / plan["u_ns"] for job in range(len(jobs))]
    return {"times": times, "mean": sum(times) / len(times), "again": sum(int(words[2]) for words in said),
            "queries": sum(int(words[3]) for words in said),
            "served": sum(counted.slots.get(job["name"], {}).get("served", 0) for job in jobs),
            "queue_drops": [late - early for late, early in zip(rack.queue_drops(), before)]}


def main():
    die_with_parent()
    hosts, build, plan, rounds, file = sys.argv[1:]
    plan = json.loads(pathlib.Path(plan).read_text())
    rows = {row["name"]: [] for row in plan["rows"]}
    with tempfile.TemporaryDirectory(prefix="tally-jct-") as scratch:
        try:
            rack = ShapedRack(hosts.split(","), pathlib.Path(build).resolve(), scratch, plan["rate_mbit_s"], plan["queue_kib"])
            for host in rack.hosts[len(plan["jobs"]) * plan["world"]:]:
                rack.shape(host, plan["server_rate_mbit_s"])
            for turn in range(int(rounds)):
                for number, row in enumerate(plan["rows"]):
                    rows[row["name"]].append(run_round(rack, plan, row, f"jct{os.getpid()}x{turn}x{number}"))
        except NoFigure as reason:
            sys.exit(f"bench-jct: {reason}")
    pathlib.Path(file).write_text(json.dumps(rows))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
