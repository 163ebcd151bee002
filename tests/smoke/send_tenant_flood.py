"""send_tenant_flood.py INTERFACE ADDRESS KIND SECONDS [version]: joins the job `greedy` and sends its data packets as fast as they
go, from a member that stays one.

KIND: questions (for a sum that is finished: the box answers each), copies (of one contribution), damaged
(contributions whose values do not fit their sums). version: the same frames with another version of the protocol, which
the first look at them refuses. Prints how many.
"""
import collections
import socket
import sys
import time

import client_wire as wire
from client_frames import FrameLink
from client_member import Member

NAME = "greedy"
INT32 = 0  # dtype
FRAMES = 512
TURN = 0.1  # seconds, after which the member does what it must to stay one
BUFFER = 64 * 1024  # bytes of answers that wait: enough for control's, and nobody reads all of the others


class Recorded:
    """A link whose frames are kept instead of sent."""

    def __init__(self, link):
        self.link, self.frames, self.other_version = link, collections.deque(), False

    def send(self, shard, data):
        link = self.link
        if self.other_version:
            data = bytes([wire.VERSION + 1]) + data[1:]
        self.frames.append(link.box_mac + link.mac + b"\x08\x00" + link.udp(wire.JOIN_PORT + shard, data))


def frames(member, kind, other_version):
    """As the member would send them."""
    real = member.link
    member.link = recorded = Recorded(real)
    recorded.other_version = other_version
    flight, chunk = member.flight, member.flight.lowest - 1 & wire.M32  # its first sum's
    values = list(range(1, 353))
    sum1, sum2 = wire.sums(wire.rank_key(member.record.generation, member.rank), chunk, values)
    if kind == "damaged":
        values[7] += 1
    sequence = flight.sequences[flight.shard(chunk)]
    for number in range(FRAMES):
        if kind == "questions":
            member.send_data(wire.QUERY, chunk, dtype=INT32, total=352)
        else:
            member.send_data(wire.CONTRIBUTE, chunk, wire.values_to_bytes(values, INT32), elements=352,
                             slot=sequence + (number if kind == "damaged" else 0), contributors=1 << member.rank,
                             dtype=INT32, sum1=sum1, sum2=sum2, total=352)
    member.link = real
    return recorded.frames


def main():
    interface, address, kind, seconds = sys.argv[1:5]
    link = FrameLink(interface, "10.0.0.254", address)
    link.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    member = Member(link, NAME, 0, 1, NAME)
    member.join()
    member.allreduce(list(range(1, 353)), INT32)
    prepared = frames(member, kind, sys.argv[5:] == ["version"])
    end = time.monotonic() + float(seconds)
    sent = 0
    while time.monotonic() < end:
        turn = time.monotonic() + TURN
        while time.monotonic() < turn:
            for frame in prepared:
                try:
                    link.socket.send(frame)
                except OSError:  # no room in the interface's queue
                    continue
            sent += len(prepared)
        member.receive(0)
        member.send_due(time.monotonic())
        # The answers of a flood leave control's little room here, and who hears nothing for half a lease asks again.
        assert member.state in ("running", "joining"), member.why
    member.join()
    assert member.epochs == 1, "it was taken for dead"
    print(sent)
    # Nobody is to wait for it.
    member.leave()


if __name__ == "__main__":
    main()
