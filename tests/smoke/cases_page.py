"""The page and the client that was written from it say the same bytes. Needs no network."""
import pathlib
import re

import client_wire as wire
from client_member import Member
from client_numbers import to_float32
from lab import case

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "protocol_examples.md"
EXAMPLE = dict(token="s3cret", elements=352)
GENERATION = 0x0123456789abcdef


class Recorder:
    """A link that keeps what is sent."""

    def __init__(self):
        self.sent = []

    def send(self, shard, data):
        self.sent.append((shard, data))


def datagrams_of_page():
    """Every block of hexadecimal words on the page; words behind two blanks are comments."""
    lines = []
    for block in re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.M | re.S):
        for line in block.splitlines():
            code = re.match(r"(?:[0-9a-f]{2,} ?)+(?= |$)", line)
            lines.append(code.group(0).replace(" ", "") if code else "/")
        lines.append("/")
    return "".join(lines)


def running_member(rank, cookie):
    """A member of the example's job, its JOINED(running) made from the page's fields."""
    member = Member(Recorder(), "resnet", rank, 2, **EXAMPLE)
    member.nonce = 0xc0ffee01
    payload = bytes.fromhex(
        "00000000c0ffee01 0000000000000000" + f"{cookie:016x}" + "3333333333333333 0123456789abcdef"
        "00000000 00000100 00000100 0160 0002 00000100 00000000 00002710"
        "0000 0000 00000000000000000000000000000000 027a11000001 01 01 01 02 0000")
    joined = wire.make(wire.JOINED, payload, job=1, rank=wire.BOX, epoch=0x5eed0001, cookie=0x2222222222222222)
    member.take(*wire.parse(joined), 0.0)
    assert member.state == "running"
    if rank == 0:
        assert joined.hex() in datagrams_of_page()
    return member


def both_members():
    return running_member(0, 0xa0a0a0a0a0a0a0a0), running_member(1, 0xb1b1b1b1b1b1b1b1)


def result(members, chunk, **fields):
    """The RESULT of a chunk from what both members have sent of it last."""
    parts = [wire.parse(next(data for _, data in reversed(member.link.sent)
                             if data[1] == wire.CONTRIBUTE and data[12:16] == chunk.to_bytes(4, "big")))
             for member in members]
    values = [a + b for a, b in zip(*(memoryview(swapped(payload)).cast("i") for _, payload in parts))]
    head = parts[0][0]
    sum1, sum2 = wire.sums(members[0].key_sum(), chunk, values)
    return wire.make(wire.RESULT, wire.values_to_bytes(values), job=1, rank=wire.BOX, epoch=0x5eed0001, chunk=chunk,
                     slot=chunk, elements=head.elements, dtype=head.dtype,
                     exponent=max(part[0].exponent for part in parts), contributors=3, cookie=0x2222222222222222,
                     sum1=sum1, sum2=sum2, total=head.total, **fields)


def swapped(payload):
    """Big-endian words as this machine's."""
    return b"".join(payload[i:i + 4][::-1] for i in range(0, len(payload), 4))


def reduce(members, arrays, dtype):
    """One operation; every datagram of it must stand on the page, as far as the page shows it."""
    page = datagrams_of_page()
    operations = [member.issue(values, dtype) for member, values in zip(members, arrays)]
    while not all(operation.done() for operation in operations):
        chunk = members[0].flight.lowest
        for member in members:
            member.flight.send_due(0.0)
        made = result(members, chunk)
        assert made[:56].hex() in page, f"RESULT of chunk {chunk}: {made.hex()}"
        for member in members:
            member.take(*wire.parse(made), 0.0)
            for shard, data in member.link.sent:
                assert shard == wire.HEADER.unpack_from(data)[8] % 2
                assert data[:56].hex() in page or (member.rank, chunk) == (1, 3), data[:56].hex()
            member.link.sent.clear()
    return [operation.sums() for operation in operations]


@case()
def page_says_what_the_client_sends(_lab):
    """Section 14, datagram by datagram: made by the client, found on the page."""
    page = datagrams_of_page()
    assert wire.crc32c(b"123456789") == 0xe3069283 and wire.crc32c(bytes(32)) == 0x8a9136aa
    assert wire.mix64(0) == 0 and wire.mix64(0x9e3779b97f4a7c15) == 0xe220a8397b1dcdaf
    assert [wire.rank_key(GENERATION, rank) for rank in (0, 1)] == [0xda889601, 0x39012d03]
    join = wire.make(wire.JOIN, wire.join_payload(0x1111111111111111, 0xc0ffee01, 1, 0, 0, 2, 352, wire.NO_RECORD,
                                                  b"resnet", b"s3cret"))
    assert join.hex() in page, join.hex()
    members = both_members()
    reduce(members, ([], []), 0)
    numbers = [n if n % 2 else -n for n in range(1, 17)], [100 * n for n in range(1, 17)]
    assert reduce(members, numbers, 0)[0] == [a + b for a, b in zip(*numbers)]
    floats = [1.0, -0.75, to_float32(0.1)], [to_float32(0.3), 2.5, to_float32(-1e-10)]
    sums = reduce(members, floats, 1)
    assert sums[0] == sums[1] == [to_float32(1.29999995), 1.75, to_float32(0.100000001)], sums
    heartbeats_and_queries(members, page)


def heartbeats_and_queries(members, page):
    members[0].send_control(wire.HEARTBEAT)
    members[0].send_data(wire.QUERY, 1, contributors=2, total=16)
    relayed = wire.make(wire.QUERY, job=1, rank=0, epoch=0x5eed0001, chunk=1, slot=1, contributors=2,
                        cookie=0x2222222222222222, total=16)
    members[1].take(*wire.parse(relayed), 0.0)
    echo = wire.make(wire.HEARTBEAT, job=1, rank=wire.BOX, epoch=0x5eed0001, chunk=4, contributors=3,
                     cookie=0x2222222222222222)
    reject = wire.make(wire.REJECT, job=1, rank=wire.BOX, epoch=0x5eed0000, chunk=1, slot=1)
    for data in (relayed, echo, reject, *(data for member in members for _, data in member.link.sent)):
        assert data[:56].hex() in page, data.hex()


@case()
def client_drops_what_is_not_right(_lab):
    """One byte changed anywhere in a RESULT: dropped, and the chunk still waits."""
    members = both_members()
    for member in members:
        member.issue(list(range(32)), 0)
        member.flight.send_due(0.0)
    good = result(members, 0)
    for at in range(len(good)):
        bad = good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:]
        try:
            members[0].take(*wire.parse(bad), 0.0)
            raise AssertionError(f"byte {at} may be anything")
        except wire.Dropped:
            pass
    members[0].take(*wire.parse(good), 0.0)
    assert not members[0].flight.chunks
