"""The counters of a tallyd as JSON: what stats.get answers while it runs, and --final-counters leaves at the end."""
import json
import pathlib
import socket

PATIENCE = 20  # seconds; the socket answers in milliseconds where the machine is not starved


class Counters:
    """By the keys of the answer: jobs[name], ports[name], cores[number], slots[job name] of those that share them (with
    `filling` and `class`), impaired[port name, direction] of those with faults; drops[job name][reason], where '' is of
    no job, and not_obeyed[reason] of control packets."""

    def __init__(self, stats):
        self.stats = stats
        self.text = json.dumps(stats, indent=1)
        self.jobs, self.ports = ({one["name"]: one for one in stats[what]} for what in ("jobs", "ports"))
        self.cores = stats["cores"]
        self.slots = {name: {**job["slots"], "filling": job["filling"], "class": job["priority"] // 64}
                      for name, job in self.jobs.items() if job["slots"]}
        self.impaired = {(name, way): port[f"impaired_{way}"] for name, port in self.ports.items() for way in ("in", "out")
                         if port[f"impaired_{way}"]}
        self.drops, self.not_obeyed = {}, {}
        for drop in stats["drops"]:
            if drop["where"] in ("job", "box"):
                self.drops.setdefault(drop["job"] or "", {})[drop["name"]] = drop["count"]
            elif drop["where"] == "control":
                self.not_obeyed[drop["name"]] = drop["count"]
        self.packet_buffers = stats["mbufs_in_use"]

    def core(self, key):
        """Sum over the cores."""
        return sum(core[key] for core in self.cores)

    def port(self, key):
        return sum(port[key] for port in self.ports.values())


def call(path, method, **parameters):
    """The result of one request to the tallyd whose control socket is there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.settimeout(PATIENCE)
        one.connect(str(path))
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        one.sendall(json.dumps(request).encode() + b"\n")
        with one.makefile("rb") as answers:
            answer = json.loads(answers.readline())
    assert "result" in answer, answer
    return answer["result"]


def ask(path):
    """Now."""
    return Counters(call(path, "stats.get"))


def of_file(path):
    """What --final-counters left there; None: it is not there, or tallyd was killed before."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return Counters(json.loads(text)) if text else None
