"""Datagrams of every type, good ones: what a job of two ranks and its box say to one another."""
import struct
from dataclasses import replace

from fixture_jobs import address4, address6, make_job, values
from tally_wire import (ABORT, ANSWER, BASE_PORT, CHALLENGE, CONTRIBUTE, ENLIST, FLUSH, HEARTBEAT, INCOMPLETE, JOIN, JOINED, LEAVE,
                        LOST, MASK32, NACK, PLAN,
                        NO_EXPONENT, OVERFLOW, PARTIAL, PROBE, QUERY, REASON_EPOCH, REASON_WAITING, REJECT, RESEND,
                        RESULT, RETRANSMIT, SWITCH_RANK, VERSION, Address, crc32c, encapsulate, pack_header, pack_values,
                        value_sums)

MULTICAST_PORT = 0xBFFF
JOB = make_job("resnet", 7, 2)
TAGGED = make_job("tagged", 16, 2, addresses=[address4(0, vlan=100), address4(1, vlan=100)])
SIX = make_job("six", 17, 2, addresses=[address6(0), address6(1, vlan=5)])
MAC = bytes.fromhex("027a11000001")
SERVER = 0xFF00
NONCE = 0xC0FFEE
COUNTER = 0x700000001
TAG = bytes(range(0xE0, 0xF0))  # nobody here knows a token


def record(job):
    return struct.pack(">QIIIH", job.generation, 3, 256, 128, job.elements)


def counted(text=b""):
    """Behind the header of what control says and hears."""
    return struct.pack(">Q", COUNTER) + text + TAG


def join_payload(job, name=b"resnet", last=None):
    fixed = struct.pack(">QQIIIHH", 0x1111222233334444, NONCE, 9, 5, 8, job.world, job.elements)
    challenge = bytes(range(0xC0, 0xD0))
    return fixed + (record(job) if last is None else last) + bytes([len(name), 0]) + challenge + name + TAG


def joined_payload(job, status=1, missing=0, text=b""):
    group = bytes(10) + b"\xff\xff" + bytes([239, 192, *divmod(job.id, 256)])
    return (struct.pack(">QQQQ", NONCE, missing, job.cookies[0], 0x5A17) + record(job)
            + struct.pack(">HIIIHH", job.world, 64, 512, 10_000, 1, 0xBFFF) + group + MAC
            + bytes([status, 4, 2, 3]) + struct.pack(">H", len(text)) + text + TAG)


PLAN_ID = bytes(range(0xA0, 0xB0))
PLAN_BYTES = 3_000  # three pages
PLANNED = 64
RACKS = 128


def enlist_payload(job, name=b"resnet"):
    fixed = (struct.pack(">QQIIQ", 0x1111222233334444, NONCE, 9, 64, job.result_cookie) + record(job)
             + struct.pack(">HI", job.world, 10_000) + PLAN_ID + struct.pack(">I", PLAN_BYTES))
    return fixed + bytes([1, 200, len(name), 0]) + bytes(range(0xC0, 0xD0)) + name + TAG


def plan_payload(page, content, name=b"resnet"):
    return (PLAN_ID + struct.pack(">IBBH", PLAN_BYTES, page, len(name), len(content)) + name + content + TAG)


def lost_payload(gone, forgot):
    return struct.pack(">QQQ", COUNTER, gone, forgot) + TAG


def planned(job, to=0):
    """JOINED(running) of a job over several boxes."""
    text = PLAN_ID + struct.pack(">IB3x", PLAN_BYTES, 2)
    return from_box(job, to, JOINED, joined_payload(job, text=text), flags=PLANNED)


def in_racks(job, to=0):
    """JOINED(running) of the middle one of three racks."""
    return from_box(job, to, JOINED, joined_payload(job, text=bytes([1, 2, 3, 0, 2, 3, 1])), flags=RACKS)


def elsewhere(job, to=0):
    """Not this box is the home of the job."""
    address = bytes(10) + b"\xff\xff" + bytes([10, 9, 0, 1])
    return from_box(job, to, JOINED, joined_payload(job, 4, text=address), job=0, epoch=0, cookie=0)


def wish(job):
    """A member asks for a page."""
    return job.control(PLAN, 0, plan_payload(1, b""), job=0, epoch=0, cookie=0).frame()


def from_box(job, to, kind, body=b"", /, port=BASE_PORT, check=None, **header):
    """A frame of the box to the rank `to`."""
    control = JOIN <= kind <= PROBE or CHALLENGE <= kind <= ENLIST
    fields = dict(version=VERSION, type=kind, flags=0, priority=0, job=job.id, rank=SWITCH_RANK, epoch=job.epoch, chunk=0,
                  slot=0, elements=0, dtype=0, exponent=NO_EXPONENT, contributors=0, cookie=job.result_cookie,
                  sum1=crc32c(body) if control and body else 0, sum2=0, total=0)
    fields.update(header)
    return encapsulate(job.box, job.addresses[to], port, pack_header(fields, check) + body)


def sum_of(job, ranks, chunk, numbers):
    """Header fields of values that these ranks are in."""
    sum1, sum2 = value_sums(numbers)
    return dict(chunk=chunk, slot=job.slot(chunk), elements=len(numbers), total=len(numbers), sum2=sum2,
                sum1=(sum1 + job.keyed(ranks, chunk)) & MASK32, contributors=sum(1 << rank for rank in ranks))


def result(job, to, chunk, numbers=None, **header):
    numbers = values(99) if numbers is None else numbers
    fields = {**sum_of(job, range(job.world), chunk, numbers), **header}
    return from_box(job, to, RESULT, pack_values(numbers), **fields)


def joined(job, to=0):
    return from_box(job, to, JOINED, joined_payload(job))


def join(job, rank=0):
    return job.control(JOIN, rank, join_payload(job), job=0, epoch=0, cookie=0).frame()


def challenge(job):
    return from_box(job, 0, CHALLENGE, struct.pack(">Q", NONCE) + TAG, job=0, epoch=0, cookie=0)


def heartbeat(job):
    """Of rank 0. The echo has no name."""
    return job.control(HEARTBEAT, 0, counted(b"resnet"), chunk=9, contributors=0x1111111111111111).frame()


def every_type(job):
    """Frames by type; the JOINED tells the generation, so all sums can be verified."""
    frames = {
        JOIN: join(job),
        JOINED: joined(job),
        CONTRIBUTE: job.contribute(0, 5, values(1), exponent=-3, dtype=1, priority=200).frame(),
        RESULT: result(job, 0, 5),
        PARTIAL: from_box(job, 1, PARTIAL, pack_values(values(4)), **sum_of(job, [1], 6, values(4))),
        FLUSH: job.control(FLUSH, 0, chunk=6, slot=6).but(rank=SERVER).frame(),
        RESEND: from_box(job, 1, RESEND, chunk=6, slot=6, rank=SERVER, contributors=2),
        QUERY: job.query(0, 1, 6, flags=RETRANSMIT).frame(),
        ANSWER: job.answer(1, 0, 6, values(5)).frame(),
        REJECT: from_box(job, 0, REJECT, chunk=6, slot=REASON_WAITING, contributors=1),
        LEAVE: job.control(LEAVE, 0, counted(), chunk=9).frame(),
        HEARTBEAT: from_box(job, 0, HEARTBEAT, counted(), chunk=9, contributors=3),
        ABORT: from_box(job, 0, ABORT, counted("rank 1: no löss\n".encode())),
        CHALLENGE: challenge(job),
        NACK: from_box(job, 0, NACK, slot=7, contributors=0b101, total=1),
        PLAN: from_box(job, 0, PLAN, plan_payload(2, bytes(440)), job=0, epoch=0, cookie=0),
        LOST: job.control(LOST, 0, lost_payload(2, 5)).frame(),
        ENLIST: job.control(ENLIST, 0, enlist_payload(job), job=0).frame(),
        PROBE: job.control(PROBE, 0, b"ping" * 3, job=0, epoch=0, cookie=0).frame(),
    }
    return dict(sorted(frames.items(), key=lambda item: (item[0] not in (JOIN, JOINED), item[0])))


def rejected(job, reason=REASON_EPOCH):
    return from_box(job, 0, REJECT, chunk=5, slot=reason, cookie=0)


def called_back(job):
    """REJECT(epoch) of control."""
    return from_box(job, 0, REJECT, counted(), slot=REASON_EPOCH, sum1=crc32c(counted()))


def incomplete(job, to, chunk):
    return from_box(job, to, RESULT, pack_values(values(7)), flags=INCOMPLETE, **sum_of(job, [0], chunk, values(7)))


def to_group(job, chunk, **header):
    """A RESULT to the group of the job."""
    group = Address("01:00:5e:40:00:07", "239.192.0.7", MULTICAST_PORT, 0)
    fields = {**sum_of(job, range(job.world), chunk, values(99)), **header}
    return from_box(replace(job, addresses=[group]), 0, RESULT, pack_values(values(99)), **fields)


def story(job=JOB):
    """[(microsecond, frame)]: two ranks join; rank 1 is 20 ms late with chunk 5; of chunk 6 a contribution and then a
    RESULT of rank 0 is lost; chunk 7 needs a QUERY; the RESULT of chunk 8 goes to a group; rank 0 waits for chunk 9,
    hears that it is alone, and the job ends."""
    def contribution(rank, chunk, **header):
        return job.contribute(rank, chunk, values(rank), **header).frame()

    relayed = from_box(job, 1, QUERY, chunk=7, slot=7, rank=0, contributors=2)
    waiting = from_box(job, 0, REJECT, chunk=9, slot=REASON_WAITING, contributors=1)
    return [
        (0, join(job)), (100, joined(job)),  # 1, 2
        (1_000, contribution(0, 5)), (21_000, contribution(1, 5)),  # 3, 4
        (21_100, result(job, 0, 5)), (21_150, result(job, 1, 5)),  # 5, 6
        (22_000, contribution(0, 6)), (32_000, contribution(0, 6, flags=RETRANSMIT)),  # 7, 8
        (32_500, contribution(1, 6)), (32_600, result(job, 1, 6)), (32_610, result(job, 0, 6)),  # 9, 10, 11
        (40_000, contribution(0, 6, flags=RETRANSMIT)), (40_100, result(job, 0, 6, flags=RETRANSMIT)),  # 12, 13
        (50_000, job.query(0, 1, 7).frame()), (50_100, relayed),  # 14, 15
        (50_200, job.answer(1, 0, 7, values(99)).frame()), (50_300, result(job, 0, 7, flags=RETRANSMIT)),  # 16, 17
        (60_000, contribution(0, 8)), (60_100, contribution(1, 8)), (60_200, to_group(job, 8)),  # 18, 19, 20
        (70_000, contribution(0, 9, flags=OVERFLOW)), (71_000, waiting), (72_000, incomplete(job, 0, 10)),  # 21, 22, 23
        (80_000, rejected(job)), (81_000, from_box(job, 0, ABORT, counted(b"rank 1 was silent"))),  # 24, 25
        (90_000, from_box(job, 0, JOINED, joined_payload(job, 3, text=b"wrong token"), job=0, epoch=0, cookie=0)),  # 26
        (91_000, contribution(0, 11)[:-1] + b"\x01"),  # 27: damaged
    ]
