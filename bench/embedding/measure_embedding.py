"""Skip-gram's table on a rack whose cables have a rate: workers and servers of keys and values, tallyd the switch of all.

   measure_embedding.py HOSTS BUILD TEXT RATE OPTIONS FILE, inside of tools/veth-rack. OPTIONS: as tools/bench-embedding has
   them, JSON. What each way took goes to FILE.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE.parent / "ports"), str(HERE.parent / "rings"), str(ROOT / "tests" / "process")]
# pylint: disable=wrong-import-position
from ends import NoFigure, Process  # noqa: E402
from shaped_rack import BOX, BURST, JOB, BehindBridges, ShapedRack, machine_ns  # noqa: E402

PROGRAM = HERE / "timed_table.py"
QUEUE = 1024  # KiB at the box's end of a cable; at a host's each flow has room for 1,000 frames
PORT = 9100


class FairRack(ShapedRack):
    """What leaves a host shares its cable by flows (UDP, and TCP to each other host), as with fq_codel, which Debian gives every interface: a sum does not wait
    behind a push that TCP has handed over as a whole. By classes of htb, as kernels are built without fq_codel, too."""

    def shape(self, host, rate):
        super().shape(host, rate)

        def inside(*words):
            done = subprocess.run([*host.inside, *(str(word) for word in words)], check=False, capture_output=True, text=True)
            if done.returncode != 0:
                raise NoFigure(f"{' '.join(map(str, words))}: {done.stderr.strip()} (are sch_htb and cls_u32 in this kernel?)")

        def tc(*words):
            inside("tc", *words)

        # TCP hands over 64 KiB at a time, which only tbf takes apart. At a rate that is scaled down that would be much.
        inside("ip", "link", "set", "eth0", "gso_max_segs", 1)
        limits = ("htb", "rate", f"{rate}mbit", "burst", BURST, "cburst", BURST)
        tc("qdisc", "replace", "dev", "eth0", "root", "handle", "1:", "htb", "default", 2)
        tc("class", "replace", "dev", "eth0", "parent", "1:", "classid", "1:1", *limits)
        flows = [("match", "ip", "protocol", 17, "0xff"),
                 *(("match", "ip", "dst", other.address) for other in self.hosts if other is not host)]
        for number, flow in enumerate(flows, 2):
            # Nothing of its own: all of it is borrowed in turn, a frame each.
            tc("class", "replace", "dev", "eth0", "parent", "1:1", "classid", f"1:{number}", "htb", "rate", "1kbit", "ceil", f"{rate}mbit",
               "burst", 1514, "cburst", BURST, "quantum", 1514)
            tc("filter", "add", "dev", "eth0", "parent", "1:", "protocol", "ip", "prio", number, "u32", *flow, "classid", f"1:{number}")


class Box(BehindBridges):
    """Not all hosts are workers. What several hosts send to one meets in the bucket of its cable."""

    def __init__(self, rack, workers):
        self.workers = workers
        super().__init__(rack, "embedding")

    def jobs_yaml(self, window):
        return f"jobs: [{{name: {JOB}, workers: {self.workers}, window: {window}, token_file: none}}]"


class System:
    """A scheduler, servers and workers, once."""

    def __init__(self, rack, name, options, port):
        self.rack, self.name, self.options = rack, name, options
        self.workers, self.servers = rack.hosts[:options["workers"]], rack.hosts[options["workers"]:]
        self.variables = {"DMLC_NUM_WORKER": str(len(self.workers)), "DMLC_NUM_SERVER": str(len(self.servers)),
                          "DMLC_PS_ROOT_URI": self.servers[0].address, "DMLC_PS_ROOT_PORT": str(port),
                          "PYTHONPATH": str(rack.build / "host/python"), "OMP_NUM_THREADS": "1"}

    def start(self, host, role, words, **variables):
        return Process(self.rack.scratch, f"{self.name}-{role}{host.index}", [*host.inside, *words],
                       environment={**self.variables, "DMLC_ROLE": role, **variables})

    def run(self, text, most_hot):
        """What each worker said, how long all waited for the slowest one's torch in each round, and the share of the CPUs that
        was used meanwhile."""
        server = [self.rack.build / "host/kv/tally-kv", "--stats", "0"]
        behind = [self.start(self.servers[0], "scheduler", server)]
        behind += [self.start(host, "server", [*server, "--rank", rank], DMLC_NODE_HOST=host.address)
                   for rank, host in enumerate(self.servers)]
        box = {"TALLY_SWITCH": BOX, "TALLY_JOB": JOB} if most_hot else {}
        file = pathlib.Path(self.rack.scratch, self.name + "-{rank}.json")
        before = machine_ns()
        trained = [self.start(host, "worker", ["/usr/bin/python3", "-B", PROGRAM, "--text", text, "--steps", self.options["rounds"],
                                               "--batch", self.options["batch"], "--rate", self.options["learning"], "--every", self.options["every"],
                                               "--most-hot", most_hot, "--json", file], DMLC_RANK=str(rank), **box)
                   for rank, host in enumerate(self.workers)]
        try:
            for process in [*trained, *behind]:
                process.end_well(600)
        finally:
            for process in [*trained, *behind]:
                process.close()
        busy, every = (now - then for now, then in zip(machine_ns(), before))
        return {"workers": [json.loads(pathlib.Path(str(file).format(rank=rank)).read_text()) for rank in range(len(trained))],
                "outside": [max(of_round) for of_round in zip(*(json.loads(process.said().splitlines()[-1])["outside"] for process in trained))],
                "cpu_share": busy / every}


def main():
    hosts, build, text, rate, options, file = sys.argv[1:]
    options = json.loads(options)
    with tempfile.TemporaryDirectory(prefix="tally-embedding-", ignore_cleanup_errors=True) as scratch:
        rack = FairRack(hosts.split(","), pathlib.Path(build), scratch, float(rate), QUEUE)
        box = Box(rack, options["workers"])
        ways = {"cold": 0, "hot": options["most_hot"]}
        found = {way: [] for way in ways}
        for repeat in range(options["repeats"]):
            for number, (way, most_hot) in enumerate(ways.items()):
                system = System(rack, f"{way}{repeat}", options, PORT + 2 * repeat + number)
                found[way].append(system.run(text, most_hot))
        found["queue_drops"] = rack.queue_drops()
        box.close()
    pathlib.Path(file).write_text(json.dumps(found))


if __name__ == "__main__":
    main()
