"""tally_test_worker and tally-ps on a host: libtally over kernel sockets."""
import signal

from programs import Programs
from workers import TestWorker


class SocketWorker(TestWorker):
    """One rank of a job, and more ranks in its process."""

    def __init__(self, host, job, rank, script="", ipv6=False, environment=None, ranks_beside=()):
        self.job, self.rank, self.name = job, rank, f"{job.name}.{rank}"
        own = host.ipv6 if ipv6 else host.ipv4
        variables = {
            "TALLY_JOB": job.name, "TALLY_TOKEN": job.token, "TALLY_RANK": str(rank),
            "TALLY_WORLD": str(job.workers), "TALLY_SWITCH": host.rack.address_for(ipv6),
            "TALLY_MTU": str(host.rack.options.mtu), "TALLY_TRANSPORT": "udp", "TALLY_DEBUG": "INFO",
            "TALLY_JOIN_TIMEOUT": "30", **(environment or {})}
        command = [Programs.worker, *script.split()]
        for other in ranks_beside:
            command += ["--neighbour", f"{other} udp {own}"]
        self.program = host.namespace.run(self.name, command, variables)
        self.pid = self.program.pid


def start_sockets(rack, job, script="", **options):
    """All ranks of a job, each on a host of its own."""
    return [SocketWorker(rack.hosts[job.first_port + rank], job, rank, script, **options)
            for rank in range(job.workers)]


class SocketServer:
    """One tally-ps, server `index` of each of `jobs`."""

    def __init__(self, host, jobs, index=0):
        words = [word for job in jobs for word in ("--job", f"{job.name}:{index}")]
        self.program = host.namespace.run(f"server{index or ''}", [
            Programs.server, "--transport", "udp", "--box", host.rack.address_for(False), "--address", host.ipv4,
            "--mtu", str(host.rack.options.mtu), *words])

    def stop(self):
        self.program.signal(signal.SIGTERM)
        assert self.program.wait() == 0, self.program.complained()
