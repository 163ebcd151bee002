"""Several boxes on one switch that is not ours, with hosts for the workers and the servers of a job over all of them."""
import copy
import os

from box import Job
from counters import call
from namespace import Namespace
from one_arm import OneArm
from programs import wait_until
from rack import Rack
from socket_worker import SocketServer, SocketWorker


LATE = 0.004  # s that the clock of a queue may be late on a busy machine without a loss of rate


def address_of_box(number):
    return f"10.0.0.{254 - number}"


def shape(switch, port, rate, free=()):
    """What leaves a port of the switch between all, in bit/s; from these addresses as fast as the machine goes. Again: another
    rate, and what waits goes on waiting."""
    def tc(*words):
        switch.call("tc", *map(str, words))
    burst = f"{max(6000, rate * LATE / 8):.0f}"
    limits = ("parent", "1:", "classid", "1:10", "htb", "rate", f"{rate:.0f}bit", "burst", burst, "cburst", burst)
    if "htb 1:" in switch.call("tc", "qdisc", "show", "dev", port):
        return tc("class", "change", "dev", port, *limits)
    tc("qdisc", "add", "dev", port, "root", "handle", "1:", "htb", "default", 10)
    tc("class", "add", "dev", port, *limits)
    tc("qdisc", "add", "dev", port, "parent", "1:10", "pfifo", "limit", 4096)
    tc("class", "add", "dev", port, "parent", "1:", "classid", "1:20", "htb", "rate", "10gbit", "burst", "64kb", "cburst", "64kb")
    for address in free:
        tc("filter", "add", "dev", port, "parent", "1:", "protocol", "ip", "u32", "match", "ip", "src", f"{address}/32", "flowid", "1:20")


class _Named(Rack):
    """What tells the boxes apart."""
    number = 0

    def place_files(self):
        folder = os.path.join(self.lab.directory, f"box{self.number}")
        os.makedirs(folder, exist_ok=True)
        super().place_files()
        self.socket, self.control = (os.path.join(folder, name) for name in ("memif.sock", "control.sock"))
        self.config = self.config.with_name(f"box{self.number}.yaml")

    def yaml(self):
        return super().yaml().replace("instance: test", f"instance: box{self.number}-", 1)

    def address_yaml(self):
        return (f"box: {{ipv4: {address_of_box(self.number)}/24, ipv6: 'fd00::{254 - self.number:x}/64', "
                f"mac: '02:7a:11:00:01:{self.number:02x}', mode: {self.options.mode}}}")

    def run_program(self, name, command, environment):
        return super().run_program(f"box{self.number}.{name}", command, environment)


class FirstBox(_Named, OneArm):
    """It makes the switch and the hosts."""


class FurtherBox(_Named):
    """It hangs on the same switch."""

    def __init__(self, first, number, jobs, **options):
        self.first, self.number = first, number
        super().__init__(first.lab, jobs, hosts=1, mode="one-arm", **options)
        self.final += f".{number}"

    def make_namespace(self):
        return Namespace(self.lab, f"box{self.number}")

    def make_hosts(self):
        mtu, port = self.options.mtu, f"box{self.number}"
        self.namespace.ip(f"link add p0 mtu {mtu} type veth peer name {port} mtu {mtu} "
                          f"netns {self.first.switch.holder.pid}",
                          "link set p0 addrgenmode none", "link set p0 up")
        self.first.switch.ip(f"link set {port} master br0", f"link set {port} up")
        self.first.switch.call("ethtool", "-K", port, "tx", "off")
        return []


class SeveralBoxes:
    """A job over `boxes` boxes, the first of them its home. Hosts: its workers, then its servers."""

    def __init__(self, lab, job, boxes=2, **options):
        self.job = job
        job.boxes = tuple(map(address_of_box, range(boxes)))
        options = {"shared_slots": 1024, **options}
        self.home = FirstBox(lab, [job], hosts=job.workers + job.servers, **options)
        self.boxes = [self.home] + [FurtherBox(self.home, number, [job], **options) for number in range(1, boxes)]
        self.hosts = self.home.hosts
        self.servers = []

    def start(self):
        for box in self.boxes:
            box.start()
        self.servers = [SocketServer(self.hosts[self.job.workers + index], [self.job], index)
                        for index in range(self.job.servers)]
        return self

    def start_workers(self, script, **options):
        return [SocketWorker(self.hosts[rank], self.job, rank, script, **options) for rank in range(self.job.workers)]

    def state_of(self, number):
        """Of box `number`, as its home knows it: 'planned', 'left_out' or neither."""
        box = call(self.home.control, "job.show", name=self.job.name)["boxes"]["boxes"][number]
        return "planned" if box["planned"] else "left_out" if box["left_out"] else ""

    def wait_for_state(self, number, state):
        wait_until(f"box {number} to be {state}", lambda: self.state_of(number) == state, 60)

    def stop(self):
        """What each box has counted."""
        for server in self.servers:
            server.stop()
        return [box.stop() for box in self.boxes if box.daemon.runs()]


class RackBoxes:
    """A job of racks with workers[r] in rack r, boxes[1 + r]; boxes[0] is the parent. A host for each worker."""

    def __init__(self, lab, name, workers, **options):
        self.job = Job(name, workers=sum(workers), racks=tuple(workers))
        self.boxes = [FirstBox(lab, [self.job], hosts=self.job.workers, **options)]
        for rack in range(len(workers)):
            job = copy.copy(self.job)
            job.rack, job.parent = rack, address_of_box(0)
            self.boxes.append(FurtherBox(self.boxes[0], rack + 1, [job], **options))
        self.rack_of = [rack for rack, count in enumerate(workers) for _ in range(count)]

    def start(self):
        for box in self.boxes:
            box.start()
        return self

    def start_workers(self, script):
        return [SocketWorker(self.boxes[0].hosts[rank], self.job, rank, script,
                             environment={"TALLY_SWITCH": address_of_box(self.rack_of[rank] + 1)})
                for rank in range(self.job.workers)]

    def stop(self):
        return [box.stop() for box in self.boxes]
