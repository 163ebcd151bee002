"""Floods of control packets, and of a tenant's data packets, from a third port, beside a job of two and as many declared jobs as a box holds."""
import pathlib
import re
import sys

from box import Job
from rack import Rack

KINDS = ("heartbeats", "malformed", "token", "challenge", "sources")
# Of data packets, from a member of the job `greedy`, which has quotas.
TENANT_KINDS = ("questions", "copies", "damaged")
GREEDY = Job("greedy", workers=1, token="greedy", lease="10s", rates="packet_rate: 2000, bad_packet_rate: 100",
             first_port=2)
MOST_JOBS = 1024
HERE = pathlib.Path(__file__).parent


class CrowdedRack(Rack):
    """Ports 0 and 1: the victims. Port 2: who floods. Port 3: a host that hears what is forwarded."""

    def __init__(self, lab, job, **options):
        super().__init__(lab, [job, GREEDY], hosts=4, **options)

    def yaml(self):
        declared = (Job(name=f"declared{i}", workers=8, window=16, elements=16, token="other") for i in range(MOST_JOBS - len(self.jobs)))
        return super().yaml() + "\n".join(job.yaml(self.lab) for job in declared) + "\n"

    def flood(self, kind, seconds, beside=False):
        """A program that floods for so long; it ends by itself. beside: with what the same frames cost as others: strangers'
        when they are forwarded, a tenant's when they are refused at the first look."""
        host = self.hosts[2]
        tenant = kind in TENANT_KINDS
        script = "send_tenant_flood.py" if tenant else "send_flood.py"
        to = [] if not beside else ["version"] if tenant else [self.hosts[3].mac()]
        return host.namespace.run(f"flood.{kind}", [sys.executable, "-B", str(HERE / script), host.interface, host.ipv4, kind,
                                                    str(seconds), *to])

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.daemon.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status).group(1))


def turn_of_control(counted):
    """CPU time of the control thread's turns: the mean and the longest, in us."""
    control = counted.stats["control"]
    return control["cpu_ns"] / control["turns"] / 1000, control["longest_ns"] / 1000
