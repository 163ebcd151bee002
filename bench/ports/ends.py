"""What is at the ends of a rack's cables: processes that end with us, hosts, counters of interfaces."""
import ctypes
import json
import os
import pathlib
import re
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)


class NoFigure(Exception):
    """Something did not do what the measurement rests on; the text says what."""


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """Its output goes to a file. Ended by close(), or by the kernel when we are gone."""

    def __init__(self, scratch, name, words, cpus=None, environment=None):
        self.name, self.cpus = name, cpus
        self.path = pathlib.Path(scratch, name + ".out")
        with open(self.path, "wb") as out:
            self.process = subprocess.Popen(
                [str(word) for word in words], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})}, preexec_fn=self._prepare)
        self.pid = self.process.pid

    def _prepare(self):
        die_with_parent()
        if self.cpus:
            os.sched_setaffinity(0, self.cpus)

    def said(self):
        return self.path.read_text(errors="replace")

    def wait_for(self, what, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition():
            if self.process.poll() is not None or time.monotonic() > end:
                raise NoFigure(f"{self.name}: {what} did not come; it said:\n{self.said()[-3000:]}")
            time.sleep(0.01)

    def line(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def signal(self, number):
        if self.process.poll() is not None:
            raise NoFigure(f"{self.name} ended with {self.process.returncode}; it said:\n{self.said()[-3000:]}")
        self.process.send_signal(number)

    def end_well(self, seconds=60):
        code = self.process.wait(timeout=seconds)
        if code != 0:
            raise NoFigure(f"{self.name} ended with {code}; it said:\n{self.said()[-3000:]}")

    def cpu_ns(self):
        """What all its threads have used."""
        tasks = pathlib.Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()  # also when it is stopped
            self.process.wait()
        self.process.stdin.close()


class Host:
    """One end of a cable: the namespace of a process of veth-rack, with the interface eth0."""

    def __init__(self, index, file):
        self.index, self.address = index, f"10.0.0.{10 + index}"
        self.inside = ["nsenter", f"--net={file}", "--"]
        self.counters = pathlib.Path(file).parent.parent / "net" / "dev"
        link = subprocess.run([*self.inside, "ip", "-j", "link", "show", "eth0"], check=True, capture_output=True)
        self.mac = json.loads(link.stdout)[0]["address"]

    def packets(self):
        """(received, sent): the second with those that the cable had no room for."""
        columns = [int(word) for word in re.search(r"eth0:(.*)", self.counters.read_text()).group(1).split()]
        return columns[1], columns[9] + columns[11]

    def ping(self, other):
        """So that the switch knows both."""
        done = subprocess.run([*self.inside, "ping", "-n", "-c", "3", "-i", "0.1", "-W", "5", other.address], check=False,
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise NoFigure(f"{other.address} does not answer {self.address} through the box:\n{done.stdout}")


def testpmd(scratch, name, cpu, devices, arguments, before=()):
    """dpdk-testpmd with its prompt there; both threads on one CPU. Its mbufs lie without gaps, as tallyd's: af_xdp gives
    the kernel addresses behind the end otherwise, and those frames are lost silently."""
    words = [*before, "dpdk-testpmd", "--no-huge", "--no-shconf", "-m", "64", "--no-pci", "--no-telemetry",
             "--iova-mode=va", "--file-prefix", f"tally-{name}-{os.getpid()}", "--lcores", f"0@{cpu},1@{cpu}"]
    words += [word for device in devices for word in ("--vdev", device)]
    words += ["--", "-i", "--disable-link-check", "--mp-alloc=anon", "--no-iova-contig", "--total-num-mbufs=16384", *arguments]
    process = Process(scratch, name, words, {cpu})
    process.wait_for("its prompt", lambda: "testpmd>" in process.said())
    return process
