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


class Page:
    """Every block of hexadecimal words on the page; words behind two blanks are comments."""

    def __init__(self):
        lines = []
        for block in re.findall(r"^```\n(.*?)^```", PAGE.read_text(), re.M | re.S):
            for line in block.splitlines():
                code = re.match(r"(?:[0-9a-f]{2,} ?)+(?= |$)", line)
                lines.append(code.group(0).replace(" ", "") if code else "/")
            lines.append("/")
        self.text = "".join(lines)
        # Headers that have a line of their own, with the values that stand under them.
        self.values = {header: values for header, values in
                       re.findall(r"^([0-9a-f]{112})\n((?:[0-9a-f]{8,104}\n)*)", "\n".join(lines), re.M)}
        self.unseen = set(self.values)

    def shows(self, data):
        """The datagram stands on the page: whole, or its header on one line and the values that stand under it."""
        header, values = data[:56].hex(), data[56:].hex()
        shown = self.values.get(header, values + "/").replace("\n", "")
        assert header + shown in self.text and (values + "/").startswith(shown), data.hex()
        self.unseen.discard(header)


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
        Page().shows(joined)
    return member


def both_members():
    return running_member(0, 0xa0a0a0a0a0a0a0a0), running_member(1, 0xb1b1b1b1b1b1b1b1)


def result(members, chunk):
    """The RESULT of a chunk from what both members have sent of it last."""
    parts = [wire.parse(next(data for _, data in reversed(member.link.sent)
                             if data[1] == wire.CONTRIBUTE and data[12:16] == chunk.to_bytes(4, "big")))
             for member in members]
    values = [wire.signed(a + b) for a, b in zip(*(memoryview(swapped(payload)).cast("i") for _, payload in parts))]
    head = parts[0][0]
    sum1, sum2 = wire.sums(members[0].key_sum(), chunk, values)
    flags = (parts[0][0].flags | parts[1][0].flags) & wire.OVERFLOW
    return from_box(wire.RESULT, wire.values_to_bytes(values), flags=flags, chunk=chunk, slot=chunk,
                    elements=head.elements, dtype=head.dtype, exponent=max(part[0].exponent for part in parts),
                    contributors=3, sum1=sum1, sum2=sum2, total=head.total)


def from_box(kind, payload=b"", **fields):
    return wire.make(kind, payload, **{**dict(job=1, rank=wire.BOX, epoch=0x5eed0001, cookie=0x2222222222222222),
                                       **fields})


def swapped(payload):
    """Big-endian words as this machine's."""
    return b"".join(payload[i:i + 4][::-1] for i in range(0, len(payload), 4))


def reduce(page, members, arrays, dtype):
    """One operation; every datagram of it must stand on the page, as far as the page shows it."""
    operations = [member.issue(values, dtype) for member, values in zip(members, arrays)]
    while not all(operation.done() for operation in operations):
        chunk = members[0].flight.lowest
        for member in members:
            member.flight.send_due(0.0)
            for shard, data in member.link.sent:
                assert shard == wire.HEADER.unpack_from(data)[7] % 2
                if (member.rank, chunk) != (1, 3):
                    page.shows(data)
        while members[0].flight.chunks.get(chunk) and members[0].flight.chunks[chunk].ever_sent:
            made = result(members, chunk)
            page.shows(made)
            for member in members:
                member.take(*wire.parse(made), 0.0)
            chunk += 1
        for member in members:
            member.link.sent.clear()
    return operations


@case()
def page_says_what_the_client_sends(_lab):
    """Section 14, datagram by datagram: made by the client, found on the page."""
    page = Page()
    assert wire.crc32c(b"123456789") == 0xe3069283 and wire.crc32c(bytes(32)) == 0x8a9136aa
    assert wire.mix64(0) == 0 and wire.mix64(0x9e3779b97f4a7c15) == 0xe220a8397b1dcdaf
    assert [wire.rank_key(GENERATION, rank) for rank in (0, 1)] == [0xda889601, 0x39012d03]
    join = wire.make(wire.JOIN, wire.join_payload(0x1111111111111111, 0xc0ffee01, 1, 0, 0, 2, 352, wire.NO_RECORD,
                                                  b"resnet", b"s3cret"))
    page.shows(join)
    members = both_members()
    reduce(page, members, ([], []), 0)
    numbers = [n if n % 2 else -n for n in range(1, 17)], [100 * n for n in range(1, 17)]
    assert reduce(page, members, numbers, 0)[0].sums() == [a + b for a, b in zip(*numbers)]
    floats = [1.0, -0.75, to_float32(0.1)], [to_float32(0.3), 2.5, to_float32(-1e-10)]
    for operation in reduce(page, members, floats, 1):
        assert operation.sums() == [to_float32(1.29999995), 1.75, to_float32(0.100000001)], operation.sums()
    heartbeats_and_queries(members, page)
    late_rank(members, page)
    numbers = list(range(1, 361)), [1000] * 360
    operation = reduce(page, members, numbers, 0)[0]
    assert operation.sums() == list(range(1001, 1361)) and not operation.overflow
    for operation in reduce(page, members, ([0.0, -0.0, 0.0], [0.0, 0.0, -0.0]), 1):
        assert [str(value) for value in operation.sums()] == ["0.0"] * 3
    leaving(members, page)
    failing(page)
    refused(page)
    assert not page.unseen, page.unseen


def heartbeats_and_queries(members, page):
    members[0].send_control(wire.HEARTBEAT)
    members[0].send_data(wire.QUERY, 1, contributors=2, total=16)
    relayed = from_box(wire.QUERY, rank=0, chunk=1, slot=1, contributors=2, total=16)
    members[1].take(*wire.parse(relayed), 0.0)
    echo = from_box(wire.HEARTBEAT, chunk=4, contributors=3)
    reject = from_box(wire.REJECT, epoch=0x5eed0000, chunk=1, slot=1, cookie=0)
    members[0].send_data(wire.QUERY, 1, contributors=0, total=16)
    nack = from_box(wire.NACK, slot=2, contributors=1, total=1)
    members[0].take(*wire.parse(nack), 0.0)  # what has its result is not sent again
    for data in (relayed, echo, reject, nack, *(data for member in members for _, data in member.link.sent)):
        page.shows(data)
    for member in members:
        member.link.sent.clear()


def late_rank(members, page):
    """Rank 0 repeats until it asks rank 1, and hears for whom it waits. The sum leaves int32."""
    early, late = members
    operations, now, sent = [early.issue([2**31 - 1, -2**31, 5], 0)], 0.0, early.link.sent
    while not sent or sent[-1][1][1] != wire.QUERY:
        early.flight.send_due(now)
        now += 0.01
    assert [data[1] for _, data in sent] == [wire.CONTRIBUTE] * 4 + [wire.QUERY]
    page.shows(sent[0][1])
    page.shows(sent[4][1])
    waiting = from_box(wire.REJECT, chunk=4, slot=3, contributors=1)
    page.shows(waiting)
    early.take(*wire.parse(waiting), now)
    assert early.missing == 2
    operations.append(late.issue([1, -1, 2**30 - 1], 0))
    late.flight.send_due(now)
    page.shows(late.link.sent[0][1])
    made = result(members, 4)
    page.shows(made)
    for member, operation in zip(members, operations):
        member.take(*wire.parse(made), now)
        assert operation.overflow and operation.sums() == [-2**31, 2**31 - 1, 2**30 + 4]
        member.link.sent.clear()


def leaving(members, page):
    reduce(page, members, ([], []), wire.FAREWELL)
    for member, there in zip(members, (2, 0)):
        member.send_control(wire.LEAVE)
        page.shows(member.link.sent[0][1])
        echo = from_box(wire.LEAVE, chunk=10, contributors=there)
        page.shows(echo)
        member.take(*wire.parse(echo), 0.0)
        assert member.leave_heard


def failing(page):
    text = b"aborted here: no space left"
    members = both_members()
    members[1].send_control(wire.ABORT, text)
    said = members[1].link.sent[0][1]
    page.shows(said)
    told = from_box(wire.ABORT, b"rank 1: " + text)
    page.shows(told)
    for member in members:
        member.take(*wire.parse(told), 0.0)
        assert member.state == "closed" and member.why == "rank 1: " + text.decode()


def refused(page):
    text = b"job 'resnet': wrong token"
    fields = bytes.fromhex("00000000c0ffee01" + "00" * 80 + "027a11000001 03 01 01 02 0019")
    joined = wire.make(wire.JOINED, fields + text, rank=wire.BOX)
    page.shows(joined)
    member = Member(Recorder(), "resnet", 0, 2, **EXAMPLE)
    member.nonce = 0xc0ffee01
    member.take(*wire.parse(joined), 0.0)
    assert member.state == "closed" and text.decode() in member.why


@case()
def page_says_where_hashed_chunks_lie(_lab):
    """The table of slots by hash, computed again."""
    member = running_member(0, 0xa0a0a0a0a0a0a0a0)
    member.joined = member.joined._replace(discipline=2, shared_slots=1000)
    rows = re.findall(r"^\| (\d+) \| (\w{16}) \| (\w{16}) \| (\d+) = (\w{8}) \| (\d), 0x(\w+) \|$",
                      PAGE.read_text(), re.M)
    assert len(rows) == 4
    for chunk, mixed, word, slot, in_hex, shard, port in rows:
        assert member.joined.salt ^ (2**32 + int(chunk)) == int(mixed, 16)
        assert wire.mix64(int(mixed, 16)) == int(word, 16)
        assert member.slot(int(chunk)) == int(slot) == int(in_hex, 16)
        assert int(slot) % member.shards == int(shard) and wire.JOIN_PORT + int(shard) == int(port, 16)


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
