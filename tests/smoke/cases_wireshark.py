"""What a real job says on the wire, as Wireshark sees it."""
import pathlib
import signal
import subprocess
import sys

from box import Job
from lab import case
from namespace import need
from programs import wait_until
from rack import run_rack
from socket_worker import SocketServer, start_sockets
from workers import finish

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "wireshark"))
from capture import Tshark  # noqa: E402  pylint: disable=wrong-import-position


class Recording:
    """dumpcap on all ports of the box, from here to stop()."""

    def __init__(self, rack):
        self.raw, self.path = (f"{rack.lab.directory}/{name}.pcapng" for name in ("raw", "run"))
        interfaces = [word for port in range(rack.ports) for word in ("-i", f"p{port}")]
        # A buffer in the kernel of 16 MiB per interface, more than all of it.
        self.program = rack.namespace.run("dumpcap", ["dumpcap", "-q", "-B", "16", *interfaces, "-f", "udp",
                                                      "-w", self.raw])
        wait_until("dumpcap to record", lambda: "File: " in self.program.complained())

    def stop(self):
        self.program.signal(signal.SIGINT)
        assert self.program.wait() == 0, self.program.complained()
        # Of several interfaces dumpcap writes one after the other.
        subprocess.run(["reordercap", self.raw, self.path], check=True, capture_output=True)
        return self.path


@case()
def capture_of_a_real_run(lab):
    """Two jobs, one of them with a server of its own, and loss: every packet is dissected without an error, every sum
    is right, and most contributions are linked to their RESULT."""
    need("dumpcap", "reordercap")
    tshark = Tshark(lab)
    jobs = [Job("pool", workers=2, token="s3cret"), Job("shared", discipline="shared", elements=32, servers=1)]
    # What leaves past traffic control is not recorded.
    rack = run_rack(lab, jobs, shared_slots=8, impair="loss: 3%", device=",qdisc_bypass=0")
    recording = Recording(rack)
    server = SocketServer(rack.hosts[jobs[1].first_port + jobs[1].workers], jobs[1:])
    # The gap is longer than two intervals of a HEARTBEAT.
    workers = [*start_sockets(rack, jobs[0], "--sizes 8000 --iterations 2 --gap 2500"),
               *start_sockets(rack, jobs[1], "--sizes 2000,5")]
    finish(workers[:2])
    finish(workers[2:])
    server.stop()
    path = recording.stop()
    rack.stop()
    packets = tshark.packets(path, "-o", "tally.sums:TRUE")
    ours = [packet for packet in packets if packet.protocols[-1] == "tally"]
    assert len(ours) > 500, len(packets)
    for packet in ours:
        assert not packet.has_error() and not packet.failed(), (packet.one("num"), packet.remarks())
        assert packet.one("tally.check.status") == "1"
    kinds = {packet.number("tally.type") for packet in ours}
    assert {1, 2, 9, 10, 11, 12} <= kinds, kinds
    sums = [packet.one("tally.sum.status") for packet in ours if packet.all("tally.sum.status")]
    assert set(sums) == {"1"}, {status: sums.count(status) for status in set(sums)}
    first = [packet for packet in ours if packet.all("tally.chunk.arrival")]
    linked = [packet for packet in first if packet.all("tally.response_in")]
    assert first and len(linked) > 0.9 * len(first), (len(linked), len(first))
    print(f"{len(ours)} packets of types {sorted(kinds)}, {len(sums)} sums, {len(linked)} of {len(first)} linked")
    assert any(packet.all("tally.repeat_of") for packet in ours), "nothing was sent twice, in spite of the losses"
