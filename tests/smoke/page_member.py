"""Processes that run page_client.py on a host."""
import pathlib
import sys

from workers import TestWorker

CLIENT = pathlib.Path(__file__).with_name("page_client.py")


class PageMember(TestWorker):
    """One rank of a job; its words on stdout are events as those of tally_test_worker."""

    def __init__(self, host, job, rank, *script, ipv6=False, frames=False):
        box = "fd00::fe" if ipv6 else "10.0.0.254"
        self.job, self.rank, self.name = job, rank, f"page.{job.name}.{rank}"
        way = ["--frames", "eth0", "--source", host.ipv4] if frames else ["--interface", "eth0"]
        words = [word for part in script for word in part.split()]
        command = [sys.executable, "-B", str(CLIENT), "--box", box, "--job", job.name, "--rank", str(rank),
                   "--world", str(job.workers), "--token", job.token, *way, *words]
        self.program = host.namespace.run(self.name, command)
        self.pid = self.program.pid
