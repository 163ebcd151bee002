"""Packets that are not as they should be: named by expert infos, and never an error of the dissector."""
import random
import struct

import fixture_frames
from capture import OURS, Tshark
from lab import case
from samples import JOB, SIX, TAGGED, called_back, every_type, heartbeat, in_racks, join, joined
from tally_wire import ABORT, JOIN, MAX_ELEMENTS, PROBE, QUERY, crc32c, ipv4_header, udp_header

VERIFY = ("-o", "tally.sums:TRUE")
UNKNOWN_FLAGS = 0xFF - 1 - 2 - 4 - 8 - 16 - 32 - 64  # 64 is SPARSE, of a job that may have it
# What each drop of the switch is called here. Others are about states, which a packet does not show.
REMARKS = {"check": "tally.check.bad", "version": "tally.version.unknown", "dtype": "tally.unknown",
           "sum": "tally.sum.bad"}
ERRORS = set(REMARKS.values()) | {"tally.length.bad", "tally.payload.bad", "tally.type.unknown", "tally.flags.unknown",
                                  "tally.elements.bad"}


def bytes_before(frame):
    """of the datagram"""
    tag = 4 * (frame[12:14] == b"\x81\x00")
    return 14 + tag + (40 if frame[12 + tag:14 + tag] == b"\x86\xdd" else 20) + 8


def expected(line):
    """The expert info that a packet of a fixture must have; None: any or none."""
    drop = line.verdict.removeprefix("drop ")
    datagram = line.frame[bytes_before(line.frame):]
    if line.case.startswith(("length_payload", "length_query")) or line.case in ("runt_header_1", "runt_header_55"):
        return "tally.length.bad"
    if drop == "type":
        return "tally.type.unknown" if datagram[1] not in range(1, 21) else None
    if drop == "flags":
        return "tally.flags.unknown" if datagram[2] & UNKNOWN_FLAGS else None
    if drop == "elements":
        count = int.from_bytes(datagram[20:22], "big")
        return "tally.elements.bad" if count % 16 or count > MAX_ELEMENTS or datagram[1] == QUERY else None
    return REMARKS.get(drop)


def judge_fixtures(lab, names, told_by, sums):
    """What the switch drops as malformed or corrupt is named; what it sends is without a fault. How many of each there are.
    told_by: makes the JOINED of a job; sums: the statuses that a packet's may have, of which "1" alone says that all were
    verified."""
    jobs, lines = [], []
    for name in names:
        more_jobs, more_lines = fixture_frames.read(name)
        jobs += more_jobs
        lines += [(name, line) for line in more_lines]
    # All in one capture: a job and an epoch have one generation in all of these, or sums would be wrong.
    told = [told_by(job) for job in jobs]
    packets = Tshark(lab).packets(told + [line.frame for _, line in lines], *VERIFY)[len(told):]
    dropped = sent = 0
    for (name, line), packet in zip(lines, packets):
        where = (name, line.case, line.keyword, packet.remarks())
        assert not packet.failed(), where
        wanted = expected(line)
        if wanted and (wanted != "tally.sum.bad" or sums == {"1"}):
            assert wanted in packet.remarks() and packet.has_error(), where
            dropped += 1
        if line.keyword in ("out", "reject"):
            assert "tally" in packet.protocols and not packet.has_error(), where
            assert set(packet.all("tally.sum.status")) <= sums, where
            sent += 1
    return dropped, sent


@case()
def packets_of_all_fixtures(lab):
    """Sums are verified, but in jobs of racks, whose keys are of more ranks than a packet names, and where rows are left
    out."""
    flat = [name for name in fixture_frames.names() if name not in ("racks", "sparse", "switchml")]
    dropped, sent = judge_fixtures(lab, flat, joined, {"1"})
    assert dropped >= 40 and sent >= 100, (dropped, sent)
    _, sent = judge_fixtures(lab, ["racks"], in_racks, {"2"})
    assert sent >= 20, sent
    _, sent = judge_fixtures(lab, ["sparse"], joined, {"1", "2"})
    assert sent >= 40, sent


@case()
def packets_of_the_switchml_fixture(lab):
    """Whatever the sessions' members send and get is of the dialect; what has another size or type is named."""
    frames = fixture_frames.read("switchml")[1]
    packets = Tshark(lab).packets([line.frame for line in frames])
    faulty = sent = 0
    for line, packet in zip(frames, packets):
        where = (line.case, line.keyword, line.verdict, packet.remarks())
        assert not packet.failed(), where
        if line.keyword == "out":
            assert "switchml" in packet.protocols and not packet.has_error(), where
            sent += 1
        elif "switchml" in packet.protocols:
            broken = line.verdict.removeprefix("drop ") in ("elements", "type")
            assert packet.has_error() == broken, where
            faulty += broken
    assert sent >= 100 and faulty == 2, (sent, faulty)


@case()
def datagrams_cut_at_every_byte(lab):
    """Each type, with all lengths from 0 to one byte too many: an error unless it is whole."""
    sent = {**every_type(JOB), "heartbeat": heartbeat(JOB), "called back": called_back(JOB)}
    whole = {kind: frame[42:] for kind, frame in sent.items()}
    ethernet = join(JOB)[:14]
    frames = {(kind, size): ethernet + ipv4_header("10.0.0.1", "10.0.0.254", 8 + size)
              + udp_header(40000, 48896, 8 + size) + (datagram + b"\0")[:size]
              for kind, datagram in whole.items() for size in range(len(datagram) + 2)}
    for (kind, size), packet in Tshark(lab).named(frames, *OURS).items():
        assert not packet.failed(), (kind, size)
        if size == len(whole[kind]):
            assert not packet.has_error(), (kind, size, packet.remarks())
        elif size == 0:
            assert "tally" not in packet.protocols or packet.has_error()
        elif kind == PROBE and size >= 56 or kind in (ABORT, "heartbeat") and size >= 80 or (
                kind == "called back" and size == 56):
            # Their payload has no length of its own, or may be missing; the CRC tells.
            assert packet.remarks() >= {"tally.payload.bad"}, (kind, size, packet.remarks())
        else:
            assert "tally.length.bad" in packet.remarks(), (kind, size, packet.remarks())


@case()
def captures_cut_at_every_byte(lab):
    """A snap length is no fault of the packet: a note, no error, checks unverified."""
    jobs = (JOB, TAGGED, SIX)
    told = [joined(job) for job in jobs]
    cuts = [(job.name, frame, kept) for job in jobs for frame in every_type(job).values()
            for kept in range(bytes_before(frame) + 1, len(frame) + 1)]
    packets = Tshark(lab).packets(told + [frame for _, frame, _ in cuts], *VERIFY, *OURS,
                                  kept=[*map(len, told), *(kept for _, _, kept in cuts)])[len(told):]
    for (job, frame, kept), packet in zip(cuts, packets):
        remarks = packet.remarks()
        where = (job, frame[bytes_before(frame):][:2].hex(), kept, remarks)
        assert "tally" in packet.protocols and not packet.failed(), where
        assert ("tally.truncated" in remarks) == (kept < len(frame)), where
        assert not remarks & ERRORS, where
        if frame[bytes_before(frame) + 1] == JOIN:
            there = max(kept - bytes_before(frame) - 56 - 72, 0)
            assert "".join(packet.all("tally.join.name")) == "resnet"[:there], where
            assert len(packet.all("tally.tag")) == (there >= 6 + 16), where


@case()
def random_bytes(lab):
    """4,000 packets with bytes changed, cut or made up, the header's check right in half of them."""
    dice = random.Random(2026)
    good = list(every_type(JOB).values())
    frames = []
    for number in range(4000):
        data = bytearray(dice.choice(good)[42:])
        for _ in range(dice.randrange(1, 12)):
            data[dice.randrange(len(data))] = dice.choice((0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)))
        if dice.random() < 0.2:
            data = bytearray(dice.randbytes(dice.randrange(300)))
        data = data[:dice.randrange(len(data) + 1)] if dice.random() < 0.3 else data
        if number % 2 and len(data) >= 56:
            data[0] = 2
            data[52:56] = struct.pack(">I", crc32c(bytes(data[:52])))
        port = dice.choice((48896, 48896, 48896, 48864))
        frames.append(good[0][:14] + ipv4_header("10.0.0.1", "10.0.0.254", 8 + len(data))
                      + udp_header(40000, port, 8 + len(data)) + bytes(data))
    packets = Tshark(lab).packets(frames, *VERIFY, *OURS)
    failed = [number for number, packet in enumerate(packets) if packet.failed()]
    assert not failed, [frames[number][42:].hex() for number in failed[:3]]


@case()
def datagrams_quoted_by_icmp(lab):
    """A worker that is gone: its kernel quotes what it got. Shown, but no part of the job's history."""
    frames = {}
    for chunk, kept in enumerate((28 + 20, 28 + 56, 28 + 100, None), 5):
        good = JOB.contribute(0, chunk, [1] * 16).frame()
        for name, sent in (("join", join(JOB)), ("contribution", good)):
            icmp = struct.pack(">BBHI", 3, 3, 0, 0) + sent[14:][:kept]
            frames[name, chunk] = sent[:14] + ipv4_header("10.0.0.1", "10.0.0.254", len(icmp), protocol=1) + icmp
        # Both quotations are before it.
        frames["real", chunk] = good
    for (name, chunk), packet in Tshark(lab).named(frames, *VERIFY).items():
        if name == "real":
            assert packet.all("tally.repeat_of") == [] and packet.one("tally.chunk.arrival") == "1", chunk
        else:
            assert "tally" in packet.protocols and not packet.failed(), (name, chunk)
            assert not packet.remarks() & ERRORS, (name, chunk)
