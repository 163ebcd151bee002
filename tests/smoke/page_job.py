"""The job of docs/protocol_examples.md without a network: its members as their program would have them, and what its
box says to them."""
import unittest.mock

import client_control as control
import client_wire as wire
from client_member import Member

EXAMPLE = dict(token="s3cret", elements=352)
JOB_KEY = control.job_key(b"resnet", b"s3cret")
BOX = dict(job=1, rank=wire.BOX, epoch=0x5eed0001, cookie=0x2222222222222222)
COOKIES = 0xa0a0a0a0a0a0a0a0, 0xb1b1b1b1b1b1b1b1


class Recorder:
    """A link that keeps what is sent."""

    def __init__(self):
        self.sent = []

    def send(self, shard, data):
        self.sent.append((shard, data))


def a_member(rank):
    member = Member(Recorder(), "resnet", rank, 2, **EXAMPLE)
    member.instance = (0x1111111111111111, 0x4444444444444444)[rank]
    member.counter = (0x0123456700000000, 0x0765432100000000)[rank]
    return member


def send_join(member, nonce):
    """A JOIN with this nonce, in place of a random one."""
    with unittest.mock.patch("secrets.randbits", return_value=nonce):
        member.send_join(0.0)
    return member.link.sent.pop()[1]


def joined_running(rank, nonce=0xc0ffee01, **header):
    """What the page shows of rank 0, with the cookie of a rank. header: other fields."""
    body = bytes.fromhex(
        f"{nonce:016x} 0000000000000000 {COOKIES[rank]:016x} 3333333333333333 0123456789abcdef"
        "00000000 00000100 00000100 0160 0002 00000100 00000000 00002710"
        "0000 0000 00000000000000000000000000000000 027a11000001 01 01 01 02 0000")
    return control.tagged(JOB_KEY, wire.JOINED, body, **{**BOX, **header})


def running_member(rank):
    member = a_member(rank)
    send_join(member, 0xc0ffee01)
    member.take(*wire.parse(joined_running(rank)), 0.0)
    assert member.state == "running"
    return member


def both_members():
    return running_member(0), running_member(1)


def control_of_box(member, kind, counter, text=b"", key=None, **fields):
    """Under the session key of a member, unless another is told."""
    return control.counted(key or member.key, kind, counter, text, **{**BOX, **fields})


def hear(member, data, now=0.0):
    member.take(*wire.parse(data), now)


def dropped(member, data, reason):
    """The member does not take it, and this is why."""
    try:
        hear(member, data)
    except wire.Dropped as word:
        assert str(word) == reason, word
        return
    raise AssertionError(f"taken: {data.hex()}")


def result(members, chunk):
    """The RESULT of a chunk from what both members have sent of it last. All before it in its shard, from 0 on, are
    finished."""
    parts = [wire.parse(next(data for _, data in reversed(member.link.sent)
                             if data[1] == wire.CONTRIBUTE and data[12:16] == chunk.to_bytes(4, "big")))
             for member in members]
    values = [wire.signed(a + b) for a, b in zip(*(wire.bytes_to_values(*part) for part in parts))]
    head = parts[0][0]
    sum1, sum2 = wire.sums(members[0].key_sum(), chunk, values)
    flags = (parts[0][0].flags | parts[1][0].flags) & wire.OVERFLOW | parts[0][0].flags & parts[1][0].flags & wire.ZERO
    payload = b"" if flags & wire.ZERO else wire.values_to_bytes(values, head.dtype)
    return from_box(wire.RESULT, payload, flags=flags, chunk=chunk, slot=(1 << chunk // members[0].shards) - 1 & wire.M32,
                    elements=head.elements, dtype=head.dtype, exponent=max(part[0].exponent for part in parts),
                    contributors=3, sum1=sum1, sum2=sum2, total=head.total)


def from_box(kind, payload=b"", **fields):
    return wire.make(kind, payload, **{**BOX, **fields})


def refusal(nonce, text):
    """JOINED(refused) without a tag."""
    body = bytes.fromhex(f"{nonce:016x}" + "00" * 80 + "027a11000001 03 01 01 02") + len(text).to_bytes(2, "big")
    return wire.make(wire.JOINED, body + text + bytes(16), rank=wire.BOX)
