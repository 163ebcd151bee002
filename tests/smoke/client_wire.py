"""Datagrams, their checks and sums: docs/protocol.md, sections 3 and 4. Written from that page alone; nothing of the
product is used. Control's own payloads are client_control.py's."""
import collections
import struct

VERSION = 2
JOIN_PORT = 0xBF00
CONTRIBUTE, RESULT, RESEND, QUERY, ANSWER, REJECT, JOIN, JOINED, LEAVE, HEARTBEAT, ABORT, PROBE, NACK, CHALLENGE = (
    1, 2, *range(5, 17))
DATA = (CONTRIBUTE, RESULT, RESEND, QUERY, ANSWER, NACK)  # the others have the CRC of a payload in sum1
EPOCH, JOB, WAITING = 1, 2, 3  # reasons of REJECT
RETRANSMIT, DIRECT, OVERFLOW, SERVED, ZERO, INCOMPLETE = 1, 2, 4, 8, 16, 32
INT16 = 2  # dtype: two values where the others have one
BOX = 0xFFFF
NONE = -128
FAREWELL = 255  # dtype of the barrier before LEAVE
M32, M64 = 2**32 - 1, 2**64 - 1

HEADER = struct.Struct(">BBBBHHIIIHBbQQIII")  # without `check`
FIELDS = ("version type flags priority job rank epoch chunk slot elements dtype exponent contributors cookie "
          "sum1 sum2 total")
Header = collections.namedtuple("Header", FIELDS, defaults=[0] * 11 + [NONE] + [0] * 5)
TABLE = []
for byte in range(256):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
    TABLE.append(byte)


class Dropped(Exception):
    """A datagram that is not taken; the word is the reason."""


def crc32c(data):
    crc = M32
    for byte in data:
        crc = TABLE[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ M32


def mix64(x):
    x &= M64
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & M64
    x = (x ^ x >> 27) * 0x94d049bb133111eb & M64
    return x ^ x >> 31


def rank_key(generation, rank):
    return (mix64(generation + rank) % 2**25) << 7 | rank << 1 | 1


def sums(keys, chunk, values):
    """sum1, sum2 of values (signed or not) with the sum of these ranks' keys."""
    return (keys * (2 * chunk + 1) + sum(values)) & M32, sum(n * v for n, v in enumerate(values, 1)) & M32


def signed(a):
    """A number modulo 2^32, as a signed one: the serial difference of two chunks."""
    return (a + 2**31) % 2**32 - 2**31


def datagram(header, payload=b""):
    if header.type not in DATA:
        header = header._replace(sum1=crc32c(payload) if payload else 0)
    head = HEADER.pack(*header)
    return head + struct.pack(">I", crc32c(head)) + payload


def make(kind, payload=b"", **fields):
    return datagram(Header(version=VERSION, type=kind, **fields), payload)


def values_to_bytes(values, dtype):
    return struct.pack(f">{len(values)}{'h' if dtype == INT16 else 'i'}", *values)


def bytes_to_values(header, payload):
    if header.flags & ZERO:
        return [0] * header.elements
    return list(struct.unpack(f">{header.elements}{'h' if header.dtype == INT16 else 'i'}", payload))


def parse(data):
    """(Header, payload) of a datagram from the box, checked by itself."""
    if len(data) < 56:
        raise Dropped("runt")
    header, check = Header(*HEADER.unpack_from(data)), int.from_bytes(data[52:56], "big")
    payload = data[56:]
    if header.version != VERSION:
        raise Dropped("version")
    if crc32c(data[:52]) != check:
        raise Dropped("check")
    if header.type in DATA:
        per_word = 2 if header.dtype == INT16 else 1
        size = 0 if header.flags & ZERO else 4 * header.elements // per_word
        if header.elements % (16 * per_word) or header.elements > 2224 * per_word or len(payload) != size:
            raise Dropped("length")
    elif header.sum1 != (crc32c(payload) if payload else 0):
        raise Dropped("payload")
    return header, payload


def printable(text):
    """Words from the wire without what would steer a terminal."""
    return "".join(c if c.isprintable() else "?" for c in text.decode("utf-8", "replace"))
