"""Every field of the native protocol: names, values, places."""
import re

import wire_headers
from capture import Tshark
from lab import case
from samples import (COUNTER, JOB, NONCE, PLAN_BYTES, PLAN_ID, SIX, TAG, TAGGED, called_back, elsewhere, every_type,
                     heartbeat, in_racks, incomplete, planned, rejected, wish)
from tally_wire import (ABORT, ANSWER, CHALLENGE, CONTRIBUTE, ENLIST, HEADER_FIELDS, HEARTBEAT, JOIN, JOINED, LEAVE, LOST,
                        NACK, PLAN, PROBE, QUERY, REJECT, RESULT, SWITCH_RANK, unpack_header)

VERIFY = ("-o", "tally.sums:TRUE")
# What the header's field `slot` is called in types that put something else there.
SLOT = {CONTRIBUTE: "sequence", ANSWER: "asker", REJECT: "reason", NACK: "sequence"}


def field_of(name, sent):
    if name == "slot" and (sent["type"], sent["rank"]) == (RESULT, SWITCH_RANK):
        return "tally.before"
    return f"tally.{SLOT.get(sent['type'], name) if name == 'slot' else name}"


def check_header(packet, frame, bytes_before):
    """All 18 fields carry what the bytes say, at their places; check is right."""
    sent = unpack_header(frame[bytes_before:])
    for name in (*HEADER_FIELDS, "check"):
        shown = packet.number(field_of(name, sent))
        assert shown == sent[name], f"type {sent['type']}, {name}: {shown}, sent {sent[name]}"
    assert packet.number("tally.check.status") == 1
    assert packet.number("tally.class") == sent["priority"] >> 6
    assert packet.number("tally.contributors.count") == sent["contributors"].bit_count()


@case()
def every_type_with_all_its_fields(lab):
    """The 19 types over IPv4, IPv6 and with a VLAN tag; sums verified; no expert error anywhere."""
    before = {JOB.name: 42, TAGGED.name: 46, SIX.name: 62}
    frames = {(job.name, kind): frame for job in (JOB, TAGGED, SIX) for kind, frame in every_type(job).items()}
    assert len(frames) == 3 * 19
    for (job, kind), packet in Tshark(lab).named(frames, *VERIFY).items():
        frame = frames[job, kind]
        tagged = frame[12:14] == b"\x81\x00"
        check_header(packet, frame, before[job] + 4 * (tagged and job == SIX.name))
        assert packet.protocols[-1] == "tally" and ("vlan" in packet.protocols) == tagged
        assert not packet.has_error() and not packet.failed(), (job, kind, packet.remarks())
        carries = kind in (1, 2, 3, 7)
        assert packet.all("tally.sum.status") == ["1"] * carries, (job, kind)
        assert packet.all("tally.payload.status") == ["1"] * (REJECT <= kind <= PROBE or CHALLENGE <= kind <= ENLIST), (job, kind)


@case()
def fields_lie_where_the_headers_put_them(lab):
    """Offsets and sizes of struct Header, the payloads and GenerationRecord, from include/tally."""
    packets = Tshark(lab).named({**every_type(JOB), "planned": planned(JOB), "racks": in_racks(JOB)})
    structs = [("Header", "tally", QUERY, 42), ("JoinPayload", "tally.join", JOIN, 98),
               ("JoinedPayload", "tally.joined", JOINED, 98), ("GenerationRecord", "tally.record", JOIN, 98 + 32),
               ("GenerationRecord", "tally.record", JOINED, 98 + 32), ("CountedPayload", "tally", LEAVE, 98),
               ("ChallengePayload", "tally.challenge", CHALLENGE, 98), ("PlanPayload", "tally.plan", PLAN, 98),
               ("LostPayload", "tally.lost", LOST, 98), ("EnlistPayload", "tally.enlist", ENLIST, 98),
               ("GenerationRecord", "tally.record", ENLIST, 98 + 32), ("PlannedText", "tally.planned", "planned", 98 + 100),
               ("RacksText", "tally.racks", "racks", 98 + 100)]
    for struct, prefix, kind, start in structs:
        for name, offset, size in wire_headers.members(struct):
            field = "tally.counter" if (struct, name) == ("LostPayload", "counter") else f"{prefix}.{name}"
            assert packets[kind].place(field) == (start + offset, size), (struct, name)
    for name, offset, size in wire_headers.members("Header"):
        for kind in (CONTRIBUTE, ANSWER, REJECT, NACK, RESULT):
            field = field_of(name, {"type": kind, "rank": SWITCH_RANK})
            assert packets[kind].place(field) == (42 + offset, size), (kind, name)


@case()
def names_are_those_of_the_headers(lab):
    """Enumerators and constants of include/tally are what Wireshark shows, no more and no less."""
    tshark = Tshark(lab)
    shown = {}
    for field, number, name in tshark.glossary("values", rb"\nV\t"):
        shown.setdefault(field, {})[int(number, 0)] = name
    enums = {"tally.type": "PacketType", "tally.dtype": "Dtype", "tally.reason": "RejectReason",
             "tally.joined.status": "JoinStatus", "tally.joined.discipline": "Discipline",
             "tally.joined.results": "ResultsMode"}
    for field, enum in enums.items():
        assert shown[field] == wire_headers.enumerators(enum), field
    flags = {**wire_headers.enumerators("Flag"), wire_headers.constant("kFlagPlanned"): "PLANNED",
             wire_headers.constant("kFlagRacks"): "RACKS"}
    for flag, name in flags.items():
        assert int(tshark.fields[f"tally.flags.{name.lower()}"][4], 0) == flag, name
    assert sum(flags) == 0xFF
    script = (tshark.script.parent / "tally" / "names.lua").read_text()
    for constant, name in (("kWireVersion", "version"), ("kBasePort", "base_port"), ("kMaxShards", "max_shards"),
                           ("kMulticastPort", "multicast_port"), ("kHeaderBytes", "header_bytes"),
                           ("kCheckedBytes", "checked_bytes"), ("kElementGranule", "element_granule"),
                           ("kMaxElements", "max_elements"), ("kNoExponent", "no_exponent"),
                           ("kNotANumber", "not_a_number"),
                           ("kMaxTextBytes", "max_text_bytes"), ("kMaxNameBytes", "max_name_bytes"),
                           ("kTagBytes", "tag_bytes"), ("kRackRankBase", "first_rack_rank"),
                           ("kServerRankBase", "first_server_rank")):
        written = re.search(rf"^  {name} = (\S+),", script, re.M).group(1)
        assert int(written, 0) == wire_headers.constant(constant), constant


@case()
def membership_payloads(lab):
    """JOIN and JOINED field by field, with the texts behind them."""
    packets = Tshark(lab).named(every_type(JOB))
    record = {"generation": JOB.generation, "first_chunk": 3, "largest_window": 256, "lookahead": 128, "elements": 16}
    said = {"instance": 0x1111222233334444, "nonce": NONCE, "attempt": 9, "lowest": 5, "next": 8, "world": 2,
            "elements": 16, "name_bytes": 6, "rack_workers": 0}
    for name, value in said.items():
        assert packets[JOIN].number(f"tally.join.{name}") == value, name
    assert packets[JOIN].one("tally.join.name") == "resnet"
    said = {"nonce": NONCE, "missing": 0, "cookie": JOB.cookies[0], "salt": 0x5A17, "world": 2, "window": 64,
            "shared_slots": 512, "lease_ms": 10_000, "most_advanced": 1, "group_port": 0xBFFF, "status": 1,
            "discipline": 4, "results": 2, "shards": 3, "text_bytes": 0}
    for name, value in said.items():
        assert packets[JOINED].number(f"tally.joined.{name}") == value, name
    assert packets[JOINED].one("tally.joined.group") == "::ffff:239.192.0.7"
    assert packets[JOINED].one("tally.joined.box_mac") == "02:7a:11:00:00:01"
    for kind in (JOIN, JOINED):
        for name, value in record.items():
            assert packets[kind].number(f"tally.record.{name}") == value, (kind, name)


@case()
def payloads_of_several_boxes(lab):
    """PLAN, LOST, ENLIST; what JOINED says of a plan, and of a home elsewhere."""
    packets = Tshark(lab).named({**every_type(JOB), "planned": planned(JOB), "elsewhere": elsewhere(JOB), "wish": wish(JOB)})
    said = {"instance": 0x1111222233334444, "nonce": NONCE, "attempt": 9, "window": 64, "result_cookie": JOB.result_cookie,
            "world": 2, "lease_ms": 10_000, "plan_bytes": PLAN_BYTES, "box": 1, "max_priority": 200, "name_bytes": 6, "zero": 0}
    for name, value in said.items():
        assert packets[ENLIST].number(f"tally.enlist.{name}") == value, name
    assert packets[ENLIST].one("tally.enlist.name") == packets[PLAN].one("tally.plan.name") == "resnet"
    for kind, field in ((ENLIST, "enlist"), (PLAN, "plan"), ("planned", "planned")):
        assert packets[kind].one(f"tally.{field}.plan").replace(":", "") == PLAN_ID.hex(), kind
    assert packets[PLAN].number("tally.plan.page") == 2 and packets["wish"].number("tally.plan.page") == 1
    assert packets[PLAN].one("tally.plan.content").replace(":", "") == "00" * 440
    assert packets["wish"].all("tally.plan.content") == []
    assert packets[LOST].number("tally.lost.gone") == 2 and packets[LOST].number("tally.lost.forgot") == 5
    assert packets["planned"].number("tally.planned.bytes") == PLAN_BYTES and packets["planned"].number("tally.planned.home") == 2
    assert packets["planned"].number("tally.flags.planned") == 1
    assert packets["elsewhere"].one("tally.joined.home") == "::ffff:10.9.0.1"
    for kind in ("planned", "elsewhere", "wish"):
        assert not packets[kind].has_error() and packets[kind].one("tally.payload.status") == "1", kind


@case()
def what_joined_says_of_racks(lab):
    """RacksText, and the workers of each rack behind it. Nothing is verified with the keys of one bitmap."""
    packet, sums = Tshark(lab).packets([in_racks(JOB), JOB.contribute(0, 4, list(range(16))).frame()], *VERIFY)
    for name, value in {"rack": 1, "most_advanced": 2, "racks": 3, "zero": 0}.items():
        assert packet.number(f"tally.racks.{name}") == value, name
    assert packet.all("tally.racks.workers") == ["2", "3", "1"]
    assert packet.number("tally.flags.racks") == 1 and not packet.has_error(), packet.remarks()
    assert packet.one("tally.payload.status") == "1" and sums.one("tally.sum.status") == "2"


@case()
def counters_and_tags(lab):
    """Of what control says and hears, with the text between them; a REJECT of a data core has none."""
    packets = Tshark(lab).named({**every_type(JOB), "heartbeat": heartbeat(JOB), "called back": called_back(JOB)})
    counters = {kind for kind, packet in packets.items() if packet.all("tally.counter")}
    tags = {kind for kind, packet in packets.items() if packet.all("tally.tag")}
    assert counters == {HEARTBEAT, LEAVE, ABORT, LOST, "heartbeat", "called back"}
    assert tags == counters | {JOIN, JOINED, PLAN, ENLIST}
    assert all(packets[kind].number("tally.counter") == COUNTER for kind in counters)
    assert all(packets[kind].one("tally.tag").replace(":", "") == TAG.hex() for kind in tags)
    assert packets["heartbeat"].one("tally.heartbeat.name") == "resnet"
    assert packets[HEARTBEAT].all("tally.heartbeat.name") == []
    assert packets[ABORT].one("tally.abort.text").startswith("rank 1: no löss")
    for kind in ("heartbeat", "called back"):
        assert not packets[kind].has_error() and packets[kind].one("tally.payload.status") == "1", kind


@case()
def info_column_for_people(lab):
    """One line for each type, and for what is special."""
    epoch = f"0x{JOB.epoch:08x}"
    forgotten = JOB.answer(1, 0, 6, [], flags=32, contributors=0, sum1=0).frame()
    assert Tshark(lab).info([*every_type(JOB).values(), forgotten, incomplete(JOB, 0, 3), rejected(JOB),
                              called_back(JOB), JOB.query(0, None, 6).frame(), planned(JOB), elsewhere(JOB), wish(JOB)]) == [
        "JOIN job 'resnet' rank 0 of 2",
        f"JOINED running: job 7, epoch {epoch}, world 2, window 64",
        "CONTRIBUTE job 7 rank 0 chunk 5: 16 float32, exponent -3",
        "RESULT job 7 chunk 5: 16 int32 of ranks 0-1",
        "PARTIAL job 7 chunk 6: 16 int32 of rank 1",
        "FLUSH job 7 server 0 chunk 6",
        "RESEND job 7 server 0 asks rank 1 for chunk 6",
        "QUERY job 7 rank 0 asks rank 1 for chunk 6 [RETRANSMIT]",
        "ANSWER job 7 rank 1 to rank 0 chunk 6: 16 int32 of ranks 0-1",
        "REJECT job 7 waiting chunk 6: contributed so far: rank 0",
        "LEAVE job 7 rank 0, next chunk 9",
        "HEARTBEAT job 7 box, next chunk 9, alive: ranks 0-1",
        "ABORT job 7 box: rank 1: no löss.",
        "PROBE rank 0, 12 bytes",
        "NACK job 7 shard 1 lacks sequence 7, 9",
        "CHALLENGE to the JOIN of nonce 0x0000000000c0ffee",
        "PLAN job 'resnet' box page 2 of 0-2",
        "LOST job 7 rank 0: box 1 gone, boxes 0, 2 forgot",
        f"ENLIST job 'resnet' rank 0 of 2 at box 1, epoch {epoch}",
        "ANSWER job 7 rank 1 to rank 0 chunk 6: has forgotten it [INCOMPLETE]",
        "RESULT job 7 chunk 3: 16 int32 of rank 0 [INCOMPLETE]",
        "REJECT job 7 epoch chunk 5",
        "REJECT job 7 epoch, of control",
        "QUERY job 7 rank 0 asks the box for chunk 6",
        f"JOINED running: job 7, epoch {epoch}, world 2, window 64 [PLANNED]",
        "JOINED elsewhere: ::ffff:10.9.0.1",
        "PLAN job 'resnet' rank 0 asks for page 1 of 0-2"]
