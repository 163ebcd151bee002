"""Numbers of float32 operations: docs/protocol.md, section 10."""
import math
import struct

LOWEST, ZERO = -96, -127


class NotANumber(Exception):
    """NaN, Inf, or too large to be quantised."""


def scale_bits(world):
    """s: the sum of N values up to 2^s stays in int32."""
    return ((2**31 - 1) // world).bit_length() - 1


def to_float32(value):
    """A double rounded to float32, ties to even."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def block_exponent(values):
    """The smallest e with 2^e >= max abs(x), not below -96; -127 if all are 0."""
    u = max(struct.unpack("<I", struct.pack("<f", abs(x)))[0] for x in values)
    if u == 0:
        return ZERO
    if u > 0x7f000000:
        raise NotANumber()
    f = (u >> 23) - 127
    return max(f if u & 0x7fffff == 0 else f + 1, LOWEST)


def quantise(values, exponent, world):
    if exponent == ZERO:
        return [0] * len(values)
    s = scale_bits(world)
    # The product is exact in double, and what float32 would lose rounds to 0 either way. round() is ties to even.
    return [max(-2**s, min(2**s, round(math.ldexp(x, s - exponent)))) for x in values]


def dequantise(sums, exponent, world):
    if exponent == ZERO:
        return [0.0] * len(sums)
    shift = exponent - scale_bits(world)
    return [to_float32(math.ldexp(to_float32(q), shift)) for q in sums]
