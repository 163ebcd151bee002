"""Floods of control packets from a third port, beside a job of two and as many declared jobs as a box holds."""
import pathlib
import re
import sys

from box import Job
from rack import Rack

KINDS = ("heartbeats", "malformed", "token", "challenge", "sources")
MOST_JOBS = 1024
SEND_FLOOD = pathlib.Path(__file__).with_name("send_flood.py")


class CrowdedRack(Rack):
    """Ports 0 and 1: the victims. Port 2: who floods. Port 3: a host that hears what is forwarded."""

    def __init__(self, lab, job, **options):
        super().__init__(lab, [job], hosts=4, **options)

    def yaml(self):
        declared = (Job(name=f"declared{i}", workers=8, window=16, elements=16, token="other") for i in range(MOST_JOBS - len(self.jobs)))
        return super().yaml() + "\n".join(job.yaml(self.lab) for job in declared) + "\n"

    def flood(self, kind, seconds, forwarded=False):
        """A program that floods for so long; it ends by itself."""
        host = self.hosts[2]
        to = [self.hosts[3].mac()] if forwarded else []
        return host.namespace.run(f"flood.{kind}", [sys.executable, "-B", str(SEND_FLOOD), host.interface, host.ipv4, kind,
                                                    str(seconds), *to])

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))


def turn_of_control(counted):
    """CPU time of the control thread's turns: the mean and the longest, in us."""
    control = counted.stats["control"]
    return control["cpu_ns"] / control["turns"] / 1000, control["longest_ns"] / 1000
