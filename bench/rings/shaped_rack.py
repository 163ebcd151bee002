"""A rack whose cables have a rate: tallyd is the switch of all hosts, and what leaves either end of a cable goes
through a token bucket (tbf). Who uses it has bench/ports and tests/process in its sys.path."""
import os
import pathlib
import subprocess

import counters
from ends import Host, NoFigure, Process

BOX = "10.0.0.1"
BOX_MAC = "02:7a:11:00:00:fe"  # the same for every box, or the hosts would send to the one before
JOB, MPI_JOB = "bench", "mpi"
BURST = "16kb"  # of the bucket: what may leave at once, some 10 frames
ATTEMPTS = 8


def machine_ns():
    """(busy, all) time of the CPUs that this process may use, since boot, in ticks."""
    busy = every = 0
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        words = line.split()
        if words[0][:3] == "cpu" and words[0][3:].isdigit() and int(words[0][3:]) in os.sched_getaffinity(0):
            ticks = [int(word) for word in words[1:9]]
            every += sum(ticks)
            busy += sum(ticks) - ticks[3] - ticks[4]
    return busy, every


class ShapedRack:
    """`rate` in Mbit/s and `queue` in KiB hold for both ends of every cable. A rate of 0: as fast as the machine goes."""

    def __init__(self, files, build, scratch, rate, queue):
        self.build, self.scratch, self.rate = build, scratch, rate
        self.hosts = [Host(index, file) for index, file in enumerate(files)]
        self.queue = queue
        self.cpus = sorted(os.sched_getaffinity(0))
        for host in self.hosts:
            pathlib.Path(f"/proc/sys/net/ipv6/conf/port{host.index}/disable_ipv6").write_text("1")
            if rate:
                self.shape(host, rate)

    def shape(self, host, rate):
        """Another rate for both ends of one cable."""
        shape = ["root", "tbf", "rate", f"{rate}mbit", "burst", BURST, "limit", f"{self.queue}kb"]
        for words in ([*host.inside, "tc", "qdisc", "replace", "dev", "eth0", *shape],
                      ["tc", "qdisc", "replace", "dev", f"port{host.index}", *shape]):
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise NoFigure(f"{' '.join(words)}: {done.stderr.strip()} (is sch_tbf in this kernel?)")

    def offloads(self, on):
        """What a Linux host has by default, or nothing of it, as a box needs that takes frames (tools/veth-rack)."""
        for host in self.hosts:
            words = [word for what in ("tx", "gso", "tso", "gro") for word in (what, "on" if on else "off")]
            subprocess.run([*host.inside, "ethtool", "-K", "eth0", *words], check=True, capture_output=True)

    def queue_drops(self):
        """Frames that the cables' queues had no room for, so far: (of the hosts, of the box)."""
        def dropped(words):
            out = subprocess.run([*words, "tc", "-s", "qdisc", "show"], check=True, capture_output=True, text=True).stdout
            return sum(int(line.split("dropped ")[1].split(",")[0]) for line in out.splitlines() if "dropped " in line)
        return sum(dropped(host.inside) for host in self.hosts), dropped([])


class Bridge:
    """The kernel's own switch between the hosts, which have ordinary offloads meanwhile."""

    def __init__(self, rack):
        self.rack = rack
        rack.offloads(True)
        self.ip("link", "add", "bridge", "type", "bridge")
        self.ip("link", "set", "bridge", "up")
        for host in rack.hosts:
            self.ip("link", "set", f"port{host.index}", "master", "bridge")

    @staticmethod
    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def close(self):
        self.ip("link", "del", "bridge")
        self.rack.offloads(False)


class Switch:
    """tallyd on af_packet, or another `driver`. `loss` of frames, each way, in percent; `window` of its job; other losses with another `seed`."""

    def __init__(self, rack, name, loss=0.0, window=256, seed=0, driver="af_packet"):
        self.rack, self.name, self.driver = rack, name, driver
        self.control = pathlib.Path(rack.scratch, name + ".sock")
        for _ in range(ATTEMPTS):
            self.process = Process(rack.scratch, name, [rack.build / "control/tallyd", "--config", self.configure(loss, window, seed)])
            try:
                self.process.wait_for("'ready'", lambda: "ready: " in self.process.said())
                break
            except NoFigure as reason:  # as in bench/ports/contenders.py: two processes, one group of sockets
                self.process.close()
                if "PACKET_FANOUT" not in str(reason):
                    raise
                last = reason
        else:
            raise last
        if loss == 0:
            self.introduce()

    def configure(self, loss, window, seed):
        lines = [f"instance: {self.name}{os.getpid()}",
                 f"dataplane: {{cores: [{self.rack.cpus[-1]}], memory: 256MiB, slots: 64MiB, hugepages: off{self.dataplane_yaml()}}}",
                 f"control: {{socket: {self.control}}}",
                 f"box: {{ipv4: {BOX}/24, mac: '{BOX_MAC}'}}", "ports:"]
        for host in self.rack.hosts:
            n = host.index
            impair = f", impair: {{loss: {loss}%, seed: {seed + n + 1}}}" if loss else ""
            lines.append(f"  - {{name: p{n}, device: \"{self.device(n)}\"{impair}}}")
        lines.append(self.jobs_yaml(window))
        path = pathlib.Path(self.rack.scratch, self.name + ".yaml")
        path.write_text("\n".join(lines) + "\n")
        return path

    def device(self, n):
        """Of port n. af_packet goes past traffic control (qdisc_bypass is 1), so the box's own frames meet no bucket."""
        return f"net_{self.driver}{n},iface=port{n}"

    def introduce(self):
        """Rings speak from host to host: it knows them all."""
        for host in self.rack.hosts[1:]:
            self.rack.hosts[0].ping(host)

    def jobs_yaml(self, window):
        """A second one is of MPI's ranks, which end without a word (mpi_ring.cc): they are dead when the next ones come."""
        job = f"workers: {len(self.rack.hosts)}, window: {window}, token_file: none"
        return f"jobs: [{{name: {JOB}, {job}}}, {{name: {MPI_JOB}, lease: 2s, {job}}}]"

    def dataplane_yaml(self):
        """More keys of `dataplane`."""
        return ""

    def count(self):
        """Its counters now."""
        return counters.ask(self.control)

    def close(self):
        self.process.close()


class BehindBridges(Switch):
    """Its frames meet the bucket of each cable, too, behind a bridge for each: a bucket in front of its own ring would make that the queue."""

    def __init__(self, rack, *args, **kwargs):
        for host in rack.hosts:
            n = host.index
            for words in (f"link add box{n} type veth peer name way{n}", f"link add bridge{n} type bridge mcast_snooping 0",
                          f"link set way{n} master bridge{n}", f"link set port{n} master bridge{n}", f"link set box{n} up",
                          f"link set way{n} up", f"link set bridge{n} up"):
                done = subprocess.run(["ip", *words.split()], capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    raise NoFigure(f"ip {words}: {done.stderr.strip()}")
        super().__init__(rack, *args, **kwargs)

    def device(self, n):
        return f"net_{self.driver}{n},iface=box{n}"
