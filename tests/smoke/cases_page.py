"""The page and the client that was written from it say the same bytes. Needs no network."""
import math
import pathlib
import re
import unittest.mock

import client_wire as wire
from client_operation import to_float32
from lab import case
from page_job import (JOB_KEY, a_member, both_members, control_of_box, from_box, hear, joined_running, refusal, result,
                      running_member, send_join)

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "protocol_examples.md"
GENERATION = 0x0123456789abcdef


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
                       re.findall(r"^([0-9a-f]{112})\n((?:(?!.{112}$)[0-9a-f]{8,}\n)*)", "\n".join(lines), re.M)}
        self.unseen = set(self.values)

    def shows(self, data):
        """The datagram stands on the page: whole, or its header on one line and the values that stand under it."""
        header, values = data[:56].hex(), data[56:].hex()
        shown = self.values.get(header, values + "/").replace("\n", "")
        whole = data[1] not in (wire.CONTRIBUTE, wire.RESULT, wire.ANSWER)
        assert header + shown in self.text and (values + "/").startswith(shown), data.hex()
        assert not whole or len(shown) >= len(values), f"cut short on the page: {data.hex()}"
        self.unseen.discard(header)


def reduce(page, members, arrays, dtype, propagate=False, exact=False):
    """One operation; every datagram of it must stand on the page, as far as the page shows it."""
    operations = [member.issue(values, dtype, propagate, exact) for member, values in zip(members, arrays)]
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
    joining(page)
    members = both_members()
    page.shows(joined_running(0))
    for key in (JOB_KEY, *(member.key for member in members)):
        assert key.hex() in page.text
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
    zeros_answered(members, page)
    other_floats(page, floats)
    rejoining(page)
    probing(page)
    leaving(members, page)
    failing(page)
    refused(page)
    assert not page.unseen, page.unseen


def other_floats(page, floats):
    """Two members more, whose first operations are these: as int16, and with a value that is no number."""
    members = both_members()
    for operation in reduce(page, members, floats, 2):
        assert operation.sums() == [1.2998046875, 1.75, 0.10009765625], operation.sums()
    for operation in reduce(page, members, ([1.0] * 3, [math.nan, 0.0, 0.0]), 1, propagate=True):
        assert all(math.isnan(value) for value in operation.sums())
    for operation in reduce(page, members, floats, 1, exact=True):
        assert operation.sums() == [to_float32(1.3), 1.75, to_float32(0.1)], operation.sums()


def joining(page):
    """Two steps: the second JOIN brings what the first was answered by."""
    member = a_member(0)
    page.shows(send_join(member, 0xc0ffee00))
    challenge = wire.make(wire.CHALLENGE, bytes.fromhex("00000000c0ffee00 c0c1c2c3c4c5c6c7c8c9cacbcccdcecf"),
                          rank=wire.BOX)
    page.shows(challenge)
    with unittest.mock.patch("secrets.randbits", return_value=0xc0ffee01):
        hear(member, challenge)
    page.shows(member.link.sent.pop()[1])
    hear(member, joined_running(0))
    assert member.state == "running"


def heartbeats_and_queries(members, page):
    first = members[0]
    first.send_heartbeat(0.0)
    echo = control_of_box(first, wire.HEARTBEAT, 1, chunk=4, contributors=3)
    hint = from_box(wire.REJECT, epoch=0x5eed0000, chunk=1, slot=1, cookie=0)
    called_back = control_of_box(first, wire.REJECT, 2, slot=1)
    forgotten = control_of_box(first, wire.REJECT, first.counter, key=JOB_KEY, slot=2, cookie=0)
    first.send_data(wire.QUERY, 1, contributors=2, total=16)
    relayed = from_box(wire.QUERY, rank=0, chunk=1, slot=1, contributors=2, total=16)
    hear(members[1], relayed)
    first.send_data(wire.QUERY, 1, contributors=0, total=16)
    nack = from_box(wire.NACK, slot=2, contributors=1, total=1)
    hear(first, nack)  # what has its result is not sent again
    for data in (echo, hint, called_back, forgotten, relayed, nack,
                 *(data for member in members for _, data in member.link.sent)):
        page.shows(data)
    hear(first, echo)
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


def zeros_answered(members, page):
    """Rank 0 asks rank 1 for a result without values."""
    relayed = from_box(wire.QUERY, rank=0, chunk=8, slot=8, dtype=1, contributors=2, total=3)
    hear(members[1], relayed)
    answer = members[1].link.sent.pop()[1]
    assert answer[1] == wire.ANSWER and len(answer) == 56
    page.shows(relayed)
    page.shows(answer)


def rejoining(page):
    """A member that is called back after the barrier says which generation it comes from."""
    members = both_members()
    reduce(page, members, ([], []), 0)
    first = members[0]
    first.challenge, first.attempt = bytes.fromhex("c0c1c2c3c4c5c6c7c8c9cacbcccdcecf"), 2
    hear(first, control_of_box(first, wire.REJECT, 2, slot=1))
    assert first.state == "joining"
    page.shows(send_join(first, 0xc0ffee02))


def probing(page):
    page.shows(wire.make(wire.PROBE, b"ping"))
    page.shows(wire.make(wire.PROBE, b"ping", rank=wire.BOX))


def leaving(members, page):
    reduce(page, members, ([], []), wire.FAREWELL)
    for counter, (member, there) in enumerate(zip(members, (2, 0)), 2):
        member.state = "leaving"
        member.send_counted(wire.LEAVE, b"")
        page.shows(member.link.sent[0][1])
        echo = control_of_box(member, wire.LEAVE, counter, chunk=10, contributors=there)
        page.shows(echo)
        hear(member, echo)
        assert member.answered


def failing(page):
    text = b"aborted here: no space left"
    members = both_members()
    members[1].send_counted(wire.ABORT, text)
    page.shows(members[1].link.sent[0][1])
    page.shows(control_of_box(members[0], wire.ABORT, 2, b"rank 1: " + text))
    for member in members:
        hear(member, control_of_box(member, wire.ABORT, 2, b"rank 1: " + text))
        assert member.state == "closed" and member.why == "rank 1: " + text.decode()


def refused(page):
    text = b"job 'resnet': wrong token"
    page.shows(refusal(0xc0ffee01, text))
    member = a_member(0)
    send_join(member, 0xc0ffee01)
    hear(member, refusal(0xc0ffee01, text))
    assert member.state == "closed" and text.decode() in member.why


@case()
def page_says_where_hashed_chunks_lie(_lab):
    """The table of slots by hash, computed again."""
    member = running_member(0)
    member.joined = member.joined._replace(discipline=2, shared_slots=1000)
    rows = re.findall(r"^\| (\d+) \| (\w{16}) \| (\w{16}) \| (\d+) = (\w{8}) \| (\d), 0x(\w+) \|$",
                      PAGE.read_text(), re.M)
    assert len(rows) == 4
    for chunk, mixed, word, slot, in_hex, shard, port in rows:
        assert member.joined.salt ^ (2**32 + int(chunk)) == int(mixed, 16)
        assert wire.mix64(int(mixed, 16)) == int(word, 16)
        assert member.slot(int(chunk)) == int(slot) == int(in_hex, 16)
        assert int(slot) % member.shards == int(shard) and wire.JOIN_PORT + int(shard) == int(port, 16)
