"""Processes that run the client of the page on a host."""
import json
import pathlib
import sys

from workers import TestWorker

CLIENT = pathlib.Path(__file__).with_name("page_client.py")
PROBE = pathlib.Path(__file__).with_name("page_probe.py")


class PageMember(TestWorker):
    """One rank of a job; its words on stdout are events as those of tally_test_worker."""

    def __init__(self, host, job, rank, *script, ipv6=False, frames=False):
        self.job, self.rank, self.name = job, rank, f"page.{job.name}.{rank}"
        way = ["--frames", "eth0", "--source", host.ipv4] if frames else ["--interface", "eth0"]
        words = [word for part in script for word in part.split()]
        command = [sys.executable, "-B", str(CLIENT), "--box", host.rack.address_for(ipv6), "--job", job.name,
                   "--rank", str(rank), "--world", str(job.workers), "--token", job.token, *way, *words]
        self.program = host.namespace.run(self.name, command)
        self.pid = self.program.pid


def probe(host, sizes):
    """Whether a PROBE of each size of payload came back; by size."""
    return json.loads(host.call(sys.executable, "-B", str(PROBE), host.rack.address_for(False), *map(str, sizes)))
