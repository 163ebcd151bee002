"""What stands between two hosts and forwards their frames: tallyd's switch, or dpdk-testpmd."""
import os
import pathlib
import signal
import sys

from ends import NoFigure, Process, testpmd

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "process"))
import counters  # noqa: E402  pylint: disable=wrong-import-position

BOX = "10.0.0.1"
ATTEMPTS = 8
# What tallyd adds by itself (docs/ports.md), for testpmd.
ADDED = {"af_packet": "", "af_xdp": ",busy_budget=0,force_copy=1"}


class Forwarder:
    """Two ports of the rack and the hosts behind them. Stopped (SIGSTOP) but while it is measured, so that all can
    stand ready and take turns."""

    def __init__(self, rack, name):
        self.rack, self.name, self.first = rack, name, rack.take_ports()
        self.a, self.b = rack.hosts[self.first:self.first + 2]
        self.process = self.start_in_the_end()

    def start_in_the_end(self):
        """DPDK's af_packet names a group of sockets by process xor interface, and two processes of one namespace may
        get the same name; the next process gets another one."""
        for _ in range(ATTEMPTS):
            try:
                return self.start()
            except NoFigure as reason:
                if "PACKET_FANOUT" not in str(reason):
                    raise
                last = reason
        raise last

    def rest(self):
        self.process.signal(signal.SIGSTOP)

    def go_on(self):
        self.process.signal(signal.SIGCONT)


class Tallyd(Forwarder):
    def __init__(self, rack, name, idle):
        self.idle = idle
        self.control = pathlib.Path(rack.scratch, name + ".sock")
        super().__init__(rack, name)

    def start(self):
        lines = [f"instance: {self.name}{os.getpid()}",
                 f"dataplane: {{cores: [{self.rack.cpus[-1]}], idle: {self.idle}, memory: 256MiB, slots: 16MiB, "
                 "hugepages: off}",
                 f"control: {{socket: {self.control}}}", f"box: {{ipv4: {BOX}/24}}", "ports:"]
        lines += [f'  - {{name: p{n}, device: "net_{self.rack.driver}{n},iface=port{self.first + n}"}}' for n in (0, 1)]
        lines += ["jobs: [{name: bench, workers: 2, token_file: none}]"]
        path = pathlib.Path(self.rack.scratch, self.name + ".yaml")
        path.write_text("\n".join(lines) + "\n")
        process = Process(self.rack.scratch, self.name, [self.rack.build / "control/tallyd", "--config", path])
        process.wait_for("'ready'", lambda: "ready: " in process.said())
        self.a.ping(self.b)
        return process

    def count(self):
        """Its counters now."""
        return counters.ask(self.control)


class Testpmd(Forwarder):
    def start(self):
        devices = [f"net_{self.rack.driver}{n},iface=port{self.first + n}{ADDED[self.rack.driver]}" for n in (0, 1)]
        return testpmd(self.rack.scratch, self.name, self.rack.cpus[-1], devices,
                       ["--auto-start", "--forward-mode=mac", f"--eth-peer=0,{self.a.mac}", f"--eth-peer=1,{self.b.mac}"])


class Generator:
    """dpdk-testpmd txonly on host a of a forwarder, on the first CPU."""

    def __init__(self, rack, forwarder):
        self.process = testpmd(rack.scratch, "generator." + forwarder.name, rack.cpus[0], ["net_af_packet0,iface=eth0"],
                               ["--forward-mode=txonly", f"--eth-peer=0,{forwarder.b.mac}"], forwarder.a.inside)

    def start(self, size):
        self.obey(f"set txpkts {size}")
        self.obey("start")

    def stop(self):
        self.obey("stop")

    def obey(self, words):
        """Returns when it has: its prompt is there again. What else it says it keeps for itself until it ends."""
        before = self.process.said().count("testpmd> ")
        self.process.line(words)
        self.process.wait_for("its prompt", lambda: self.process.said().count("testpmd> ") > before)
