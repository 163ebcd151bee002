"""What control and its members tell each other: keys, tags, JOIN, CHALLENGE and JOINED: docs/protocol.md, 4.1, 5.1
and 5.2."""
import collections
import hashlib
import hmac
import struct

import client_wire as wire
from client_wire import Dropped

TAG_BYTES = 16
COUNTER = struct.Struct(">Q")
RUNNING, FORMING, REFUSED = 1, 2, 3  # status of JOINED
NO_CHALLENGE = bytes(16)

Record = collections.namedtuple("Record", "generation first_chunk largest_window lookahead elements")
RECORD = struct.Struct(">QIIIH")
NO_RECORD = Record(0, 0, 0, 0, 0)
JOIN_HEAD, JOIN_TAIL = struct.Struct(">QQIIIHH"), struct.Struct(">BB16s")
Joined = collections.namedtuple("Joined", "nonce missing cookie salt record world window shared_slots lease "
                                "most_advanced group_port group box_mac status discipline results shards text tagged")
JOINED_BYTES = 100


def blake2b(size, data, key=b""):
    return hashlib.blake2b(data, digest_size=size, key=key).digest()


def job_key(name, token):
    return blake2b(32, b"tally 2 job" + bytes([len(name)]) + name + bytes([len(token)]) + token)


def session_key(key, generation, epoch, result_cookie, cookie, instance, rank):
    """Of one rank's process in one epoch. key: the job's; cookie: of the rank's contributions."""
    return blake2b(32, b"tally 2 session" + struct.pack(">QIQQQH", generation, epoch, result_cookie, cookie, instance,
                                                        rank), key)


def tag_of(key, header, body):
    return blake2b(TAG_BYTES, wire.HEADER.pack(*header)[:40] + body, key)


def tagged(key, kind, body, **fields):
    """A datagram whose payload is body and tag."""
    header = wire.Header(version=wire.VERSION, type=kind, **fields)
    return wire.datagram(header, body + tag_of(key, header, body))


def is_tagged(key, header, payload):
    return hmac.compare_digest(tag_of(key, header, payload[:-TAG_BYTES]), payload[-TAG_BYTES:])


def counted(key, kind, counter, text, **fields):
    """HEARTBEAT, LEAVE or ABORT. text: a HEARTBEAT's name of the job, an ABORT's reason."""
    return tagged(key, kind, COUNTER.pack(counter) + text, **fields)


def parse_counted(key, header, payload):
    """(counter, text) of a payload that begins with a counter and ends in a tag under the key."""
    if len(payload) < COUNTER.size + TAG_BYTES:
        raise Dropped("length")
    if not is_tagged(key, header, payload):
        raise Dropped("tag")
    return COUNTER.unpack_from(payload)[0], payload[COUNTER.size:-TAG_BYTES]


def join(key, name, rank, instance, nonce, attempt, lowest, following, world, elements, last, challenge):
    """key: the job's; elements: the wish; last: a Record."""
    body = (JOIN_HEAD.pack(instance, nonce, attempt, lowest, following, world, elements) + RECORD.pack(*last)
            + JOIN_TAIL.pack(len(name), 0, challenge) + name)
    return tagged(key, wire.JOIN, body, rank=rank)


def parse_challenge(payload):
    """(nonce, challenge)"""
    if len(payload) != 24:
        raise Dropped("length")
    return struct.unpack(">Q16s", payload)


def parse_joined(key, header, payload):
    """Joined.tagged: whether the tag is right."""
    if len(payload) < JOINED_BYTES + TAG_BYTES:
        raise Dropped("length")
    nonce, missing, cookie, salt = struct.unpack_from(">QQQQ", payload)
    record = Record(*RECORD.unpack_from(payload, 32))
    rest = struct.unpack_from(">HIIIHH16s6sBBBBH", payload, 54)
    if len(payload) != JOINED_BYTES + rest[-1] + TAG_BYTES:
        raise Dropped("length")
    return Joined(nonce, missing, cookie, salt, record, *rest[:-1],
                  text=wire.printable(payload[JOINED_BYTES:-TAG_BYTES]), tagged=is_tagged(key, header, payload))
