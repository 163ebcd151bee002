"""What the client does with single packets: the rules of docs/protocol.md, one by one. Needs no network."""
import client_control as control
import client_wire as wire
from client_flight import Failed
from lab import case
from page_job import (BOX, JOB_KEY, a_member, both_members, control_of_box, dropped, from_box, hear, joined_running,
                      refusal, result, running_member)


@case(waits=True)
def client_joins_in_two_steps(_lab):
    """The first CHALLENGE of an interval is answered at once, later ones in their turn; with the newest nonce only, and
    the interval begins anew. JOINED needs the job's key."""
    member, sent = a_member(0), []

    def challenge(nonce, word, now):
        hear(member, wire.make(wire.CHALLENGE, nonce.to_bytes(8, "big") + word * 16, rank=wire.BOX), now)
        sent.extend(data for _, data in member.link.sent)
        member.link.sent.clear()

    start = member.next_join
    assert member.send_due(start) == start + 0.1
    first = member.nonce
    challenge(first, b"a", start + 0.01)
    assert len(sent) == 2 and sent[0][56 + 56:56 + 72] == bytes(16) and sent[1][56 + 56:56 + 72] == b"a" * 16
    try:
        challenge(first, b"b", start + 0.02)
        raise AssertionError("the nonce of an older JOIN")
    except wire.Dropped:
        pass
    challenge(member.nonce, b"c", start + 0.02)
    assert len(sent) == 2, "the second CHALLENGE of an interval is kept"
    assert abs(member.send_due(start + 0.05) - start - 0.11) < 1e-6
    assert abs(member.send_due(start + 0.111) - start - 0.311) < 1e-6  # behind the edge, where roundings decide
    assert member.link.sent[0][1][56 + 56:56 + 72] == b"c" * 16
    dropped(member, joined_running(0, nonce=member.nonce)[:-16] + bytes(16), "payload")
    strange = control.tagged(control.job_key(b"resnet", b"secret"), wire.JOINED, wire.parse(
        joined_running(0, nonce=member.nonce))[1][:-16], **BOX)
    dropped(member, strange, "tag")
    hear(member, joined_running(0, nonce=member.nonce))
    assert member.state == "running"


@case(waits=True)
def client_takes_a_bare_reject_for_a_hint(_lab):
    """A HEARTBEAT, each 100 ms at most, and nothing else; none for another job or epoch."""
    member = running_member(0)
    dropped(member, from_box(wire.REJECT, slot=1, epoch=0x5eed0000), "epoch")
    dropped(member, from_box(wire.REJECT, slot=2, job=2), "epoch")
    assert member.next_heartbeat == 1.0
    for now, when in ((0.5, 0.5), (0.55, 0.6), (0.62, 0.7)):
        for _ in range(10):
            hear(member, from_box(wire.REJECT, slot=1, cookie=0), now)
        assert abs(member.next_heartbeat - when) < 1e-6, (now, member.next_heartbeat)
        assert member.state == "running" and not member.link.sent
        member.send_heartbeat(when)
        assert member.link.sent.pop()[1][1] == wire.HEARTBEAT


@case(waits=True)
def client_obeys_what_is_tagged_and_new(_lab):
    """REJECT, echo and ABORT of another key, of an old counter, or with one byte changed: dropped. REJECT(job) answers
    one of the HEARTBEATs since control spoke last."""
    member = running_member(0)
    other = running_member(1).key
    for kind, fields in ((wire.REJECT, dict(slot=1)), (wire.HEARTBEAT, dict(contributors=3)), (wire.ABORT, {})):
        dropped(member, control_of_box(member, kind, 9, key=other, **fields), "tag")
        for at in (3, 14, 30, 39):  # priority, chunk, contributors, cookie: under the tag
            data = bytearray(control_of_box(member, kind, 9, **fields))
            data[at] ^= 1
            data[52:56] = wire.crc32c(bytes(data[:52])).to_bytes(4, "big")
            dropped(member, bytes(data), "cookie" if at == 39 and kind != wire.REJECT else "tag")
    hear(member, control_of_box(member, wire.HEARTBEAT, 9, contributors=1))
    assert member.alive == 1
    for counter in (8, 9):
        dropped(member, control_of_box(member, wire.HEARTBEAT, counter, contributors=3), "counter")
        dropped(member, control_of_box(member, wire.REJECT, counter, slot=1), "counter")
    member.send_heartbeat(0.0)
    old = member.counter
    hear(member, control_of_box(member, wire.HEARTBEAT, 10, contributors=3))
    dropped(member, control_of_box(member, wire.REJECT, old, key=JOB_KEY, slot=2, cookie=0), "counter")
    member.send_heartbeat(1.0)
    member.send_heartbeat(2.0)
    dropped(member, control_of_box(member, wire.REJECT, member.counter, slot=2), "tag")
    hear(member, control_of_box(member, wire.REJECT, member.counter - 1, key=JOB_KEY, slot=2, cookie=0))
    assert member.state == "joining"
    dropped(member, control_of_box(member, wire.REJECT, 11, slot=1), "state")
    hear(member, control_of_box(member, wire.ABORT, 11, b"enough"))
    assert member.state == "closed" and member.why == "enough"


@case(waits=True)
def client_keeps_its_operations_through_a_forged_refusal(_lab):
    """Who was in a generation asks on, and tells the text when the silence limit has passed; with a tag it is final."""
    member = running_member(0)
    member.heard = 0.0
    operation = member.issue([1], 0)
    hear(member, control_of_box(member, wire.REJECT, 1, slot=1))
    member.send_due(1.0)
    hear(member, refusal(member.nonce, b"go away"), 1.0)
    assert member.state == "joining"
    hear(member, joined_running(0, nonce=member.nonce, epoch=0x5eed0002), 2.0)
    member.flight.send_due(2.0)
    assert member.state == "running" and member.link.sent[-1][1][1] == wire.CONTRIBUTE and not operation.done()
    hear(member, control_of_box(member, wire.REJECT, 1, slot=1, epoch=0x5eed0002))
    member.send_due(11.0)
    hear(member, refusal(member.nonce, b"go away"), 11.0)
    member.send_due(12.1)
    assert member.state == "closed" and member.why == "switch unreachable; refused: go away", member.why


@case(waits=True)
def client_asks_for_what_was_overtaken(_lab):
    """Where the box does not tell what is finished. Of one shard: a chunk without a RESULT, `lead` sendings behind one
    that has it, is asked for after the patience, three times; the box lacks the contribution: it goes again, once for
    each question. A NACK brings its last sequence again, and no older one."""
    members = both_members()
    flight = members[0].flight
    members[0].joined = members[0].joined._replace(discipline=4)
    for member in members:
        member.issue(list(range(352 * 64)), 0)
        member.flight.send_due(0.0)
    sent = members[0].link.sent
    made = [result(members, chunk) for chunk in range(64)]
    for chunk in range(1, 64):
        hear(members[0], of_result(made[chunk], slot=0), 0.02)
    patience, trip = flight.trips.patience(), flight.trips.round(False)
    sent.clear()
    assert abs(flight.send_due(0.025) - patience) < 1e-6 and not sent
    flight.send_due(patience)
    assert [wire.Header(*wire.HEADER.unpack_from(data))[1:9] for _, data in sent] == [
        (wire.QUERY, 0, 0, 1, 0, 0x5eed0001, 0, 0)]
    for times in (1, 2):
        flight.send_due(patience + 1.001 * times * trip)
        flight.send_due(patience + (times + 0.1) * trip)
    assert [data[1] for _, data in sent] == [wire.QUERY] * 3 and flight.chunks[0].questions == 3
    sent.clear()
    for times in (1, 2):
        hear(members[0], from_box(wire.REJECT, chunk=0, slot=3, contributors=2), patience + 3 * trip)
        assert [data[1] for _, data in sent] == [wire.CONTRIBUTE] and sent[0][1][2] == wire.RETRANSMIT
    assert flight.chunks[0].sequence == 33 and sent[0][1][16:20] == (33).to_bytes(4, "big")
    flight.send_due(patience + 5 * trip)
    assert [data[1] for _, data in sent] == [wire.CONTRIBUTE] * 2, "its timer runs again"
    sent.clear()
    hear(members[0], from_box(wire.NACK, slot=1, contributors=1, total=0))
    hear(members[0], from_box(wire.NACK, slot=34, contributors=1, total=1))
    assert not sent, "not the last sequence of a chunk, or of another shard"
    hear(members[0], from_box(wire.NACK, slot=1, contributors=1 << 33 | 1, total=0))
    assert [data[16:20] for _, data in sent] == [(35).to_bytes(4, "big")]


def of_result(data, **fields):
    """A RESULT with other fields."""
    header, payload = wire.parse(data)
    return wire.datagram(header._replace(**fields), payload)


@case(waits=True)
def client_asks_at_once_for_a_lost_result(_lab):
    """The third RESULT that says that a chunk is finished. Those that are nearer than three do not count, nor does a
    repeated one, which gives no sample either. Also where slots are shared."""
    for discipline in (1, 4):
        asks_at_once(both_members(), discipline)


def asks_at_once(members, discipline):
    members[0].joined = members[0].joined._replace(discipline=discipline)
    for member in members:
        member.issue(list(range(352 * 16)), 0)
        member.flight.send_due(0.0)
    flight, sent = members[0].flight, members[0].link.sent
    made = [result(members, chunk) for chunk in range(16)]
    sent.clear()
    hear(members[0], of_result(made[15], flags=wire.RETRANSMIT), 0.02)
    assert not flight.trips.newest
    for chunk in (1, 2, 3, 4, 5, 6, 7, 8):  # 6 and 8 are far enough behind 0
        hear(members[0], made[chunk], 0.02)
    hear(members[0], of_result(made[10], flags=wire.RETRANSMIT), 0.02)
    flight.send_due(0.02)
    assert not sent and flight.chunks[0].finished == 2 and len(flight.trips.newest) == 8
    hear(members[0], made[12], 0.02)
    for _ in range(2):
        flight.send_due(0.02)
    assert [data[:20] for _, data in sent] == [from_box(wire.QUERY, rank=0)[:20]]
    hear(members[0], of_result(made[0], flags=wire.RETRANSMIT), 0.03)
    assert flight.lowest == 9 and len(flight.trips.newest) == 9


@case(waits=True)
def client_asks_later_for_what_is_unfinished(_lab):
    """It has no timer. A QUERY when a chunk of its shard that was sent `lead` after the first RESULT that says so has
    its own, a second one when a chunk that was sent 3 after the first has it; without one a round later, and of a peer."""
    members = both_members()
    flight, sent = members[0].flight, members[0].link.sent

    def issue(chunks, now):
        for member in members:
            member.issue(list(range(352 * chunks)), 0)
            member.flight.send_due(now)

    def answer(chunks, now):
        for chunk in chunks:
            made = result(members, chunk)
            hear(members[1], made, now)
            if chunk != 200:
                without = 1 << chunk // 2 - 101 if chunk > 200 and chunk % 2 == 0 else 0
                hear(members[0], of_result(made, slot=wire.parse(made)[0].slot & ~without), now)
        for member in members:
            member.flight.send_due(now)

    def questions():
        return [(data[2], data[31]) for _, data in sent if data[1] == wire.QUERY]

    issue(300, 0.0)
    answer(range(256), 0.02)
    assert flight.chunks[200].unfinished == (256, 0.02) and flight.sendings == 300
    answer(range(256, 288), 0.04)
    assert not questions()
    answer([288], 0.04)
    assert questions() == [(0, 0)] and flight.chunks[200].number == 301
    issue(20, 0.04)
    answer(range(289, 302), 0.06)
    assert len(questions()) == 1
    answer([302], 0.06)
    assert questions()[1:] == [(wire.DIRECT, 0)]
    answer(range(303, 320), 0.06)
    again = 0.06 + flight.trips.round(True)
    assert abs(flight.send_due(again - 0.001) - again) < 1e-6 and len(questions()) == 2
    flight.send_due(again)
    assert questions()[2:] == [(0, 2)]
    assert sum(data[1] == wire.CONTRIBUTE for _, data in sent) == flight.numbered, "none went again"


@case(waits=True)
def client_limits_what_time_outs_send(_lab):
    """A window that is lost as a whole: half of it goes again, the rest an RTO later; then a quarter."""
    member = running_member(0)
    member.issue(list(range(352 * 256)), 0)
    member.flight.send_due(0.0)
    member.link.sent.clear()
    due = member.flight.send_due(0.1)
    assert len(member.link.sent) == 128 and abs(due - 0.3) < 1e-6, (len(member.link.sent), due)
    member.flight.send_due(0.299)
    assert len(member.link.sent) == 128
    due = member.flight.send_due(0.301)
    assert len(member.link.sent) == 256 and abs(due - 0.501) < 1e-6, (len(member.link.sent), due)
    due = member.flight.send_due(0.502)
    assert len(member.link.sent) == 320 and abs(due - 0.902) < 1e-6, (len(member.link.sent), due)


@case(waits=True)
def client_fails_by_three_wrong_results(_lab):
    """Sums that do not fit, three times for one chunk: the operation fails here, and ABORT says so."""
    members = both_members()
    for member in members:
        member.issue([1, 2, 3], 0)
        member.flight.send_due(0.0)
    good = bytearray(result(members, 0))
    good[60] ^= 1
    for _ in range(2):
        dropped(members[0], bytes(good), "sums")
    try:
        hear(members[0], bytes(good))
        raise AssertionError("the third was dropped, too")
    except Failed as reason:
        assert "sums" in str(reason)


@case(waits=True)
def client_drops_what_is_not_right(_lab):
    """One byte changed anywhere in a RESULT: dropped, and the chunk still waits."""
    members = both_members()
    for member in members:
        member.issue(list(range(32)), 0)
        member.flight.send_due(0.0)
    good = result(members, 0)
    for at in range(len(good)):
        members[0].flight.chunks[0].wrong = 0  # the third would fail the operation
        bad = good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:]
        try:
            hear(members[0], bad)
            raise AssertionError(f"byte {at} may be anything")
        except wire.Dropped:
            pass
    members[0].take(*wire.parse(good), 0.0)
    assert not members[0].flight.chunks
