"""Operations and their chunks, and float32 as integers of 32 or 16 bits: docs/protocol.md, sections 6 and 10;
exact sums of floats."""
import math
import struct

from client_wire import INT16, NONE

LOWEST, ZERO, NO_NUMBER = -96, -127, 127
FLOATS = 1, INT16  # dtypes
DIGITS = 12  # words of a float in an exact sum


class NotANumber(Exception):
    """NaN, Inf, or too large to be quantised; the text says which element."""


def most(world, dtype):
    """What N ranks may each have, so that no sum leaves the type that travels."""
    return (2**(15 if dtype == INT16 else 31) - 1) // world


def scale_bits(world, dtype):
    """s: the sum of N values up to 2^s stays in it."""
    return most(world, dtype).bit_length() - 1


def to_float32(value):
    """A double rounded to float32, ties to even."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def block_exponent(values):
    """The smallest e with 2^e >= max abs(x), not below -96; -127 if all are 0, 127 if one is no number."""
    if not all(abs(x) <= 2.0**126 for x in values):
        return NO_NUMBER
    u = max(struct.unpack("<I", struct.pack("<f", abs(x)))[0] for x in values)
    if u == 0:
        return ZERO
    f = (u >> 23) - 127
    return max(f if u & 0x7fffff == 0 else f + 1, LOWEST)


def quantise(values, exponent, world, dtype):
    if exponent in (ZERO, NO_NUMBER):
        return [0] * len(values)
    s = scale_bits(world, dtype)
    # The product is exact in double, and what float32 would lose rounds to 0 either way. round() is ties to even.
    return [max(-2**s, min(2**s, round(math.ldexp(x, s - exponent)))) for x in values]


def dequantise(sums, exponent, world, dtype):
    if exponent == NO_NUMBER:
        return [math.nan] * len(sums)
    if exponent == ZERO:
        return [0.0] * len(sums)
    shift = exponent - scale_bits(world, dtype)
    return [to_float32(math.ldexp(to_float32(q), shift)) for q in sums]


def to_digits(value):
    """Twelve digits of 24 bits, in units of 2^-149."""
    if not math.isfinite(value):
        return [0] * (DIGITS - 1) + [2**24]
    units = int(math.ldexp(abs(value), 149))
    return [(units >> 24 * i & 0xffffff) * (-1 if value < 0 else 1) for i in range(DIGITS)]


def from_digits(digits):
    """The float32 nearest to the sum, ties to even."""
    if abs(digits[-1]) >= 2**23:
        return math.nan
    units = sum(digit << 24 * i for i, digit in enumerate(digits))
    cut = max(0, abs(units).bit_length() - 24)
    mantissa, rest = divmod(abs(units), 1 << cut)
    if 2 * rest > 1 << cut or (2 * rest == 1 << cut and mantissa & 1):
        mantissa += 1
    return to_float32(math.copysign(math.ldexp(mantissa, cut - 149), units))


class Operation:
    """One array, or nothing (a barrier). values: a list of numbers; dtype: 0 int32, 1 float32, 2 int16, 255 the
    barrier of leaving; record: of the generation; propagate: what is no number becomes NaN, else it fails; exact:
    the floats travel as digits; by default where they fit in one packet, as libtally does."""

    def __init__(self, values, dtype, record, world, propagate=False, exact=None):
        self.values, self.dtype, self.world, self.propagate = values, dtype, world, propagate
        self.exact = dtype == 1 and len(values) * DIGITS <= record.elements if exact is None else exact
        self.granule = 32 if dtype == INT16 else 16
        self.elements = record.elements * (2 if dtype == INT16 else 1)
        if self.exact:
            self.elements //= DIGITS
        self.total = len(values)
        self.data = (self.total + self.elements - 1) // self.elements
        self.quantised = dtype in FLOATS and not self.exact
        self.priming = min(self.data, record.lookahead) if self.quantised else 0
        self.chunks = max(1, self.priming + self.data)
        limit = math.ldexp(1 - 2.0**-24, 128) if self.exact else 2.0**126
        bad = next((at for at, x in enumerate(values) if dtype in FLOATS and not abs(x) <= limit), None)
        if bad is not None and not propagate:
            raise NotANumber(f"element {bad} is {values[bad]}")
        self.exponents = [block_exponent(self.block(j)) for j in range(self.data)] if self.quantised else []
        self.results = {}  # by place in the operation: (header, values)
        self.overflow = False

    def block(self, j):
        return self.values[j * self.elements:(j + 1) * self.elements]

    def size(self, m):
        """`elements` of chunk m: the padded count of its data chunk."""
        if self.data == 0 or m < self.priming:
            return 0
        values = len(self.block(m - self.priming)) * (DIGITS if self.exact else 1)
        return (values + self.granule - 1) // self.granule * self.granule

    def exponent(self, m):
        """What chunk m carries of this rank."""
        return self.exponents[m] if m < self.data and self.quantised else NONE

    def ready(self, m):
        """False while a data chunk waits for its block's exponent."""
        return not self.quantised or m < self.priming or m - self.priming in self.results or self.data == 0

    def contribution(self, m):
        """Values of chunk m, padded, and whether some of them may make the sum leave int32."""
        if self.size(m) == 0:
            return [], False
        block = self.block(m - self.priming)
        if self.exact:
            block = [digit for x in block for digit in to_digits(x)]
        elif self.quantised:
            block = quantise(block, self.results[m - self.priming][0].exponent, self.world, self.dtype)
        block = block + [0] * (self.size(m) - len(block))
        return block, any(abs(v) > most(self.world, self.dtype) for v in block)

    def accept(self, m, header, values, overflow):
        self.results[m] = (header, values)
        self.overflow |= overflow

    def refuses(self, m):
        """Chunk m says that a rank has what is no number, and the program did not ask for NaN."""
        if self.propagate:
            return False
        if self.exact:
            return any(math.isnan(x) for x in self.block_of_sums(m))
        return self.exponent(m) != NONE and self.results[m][0].exponent == NO_NUMBER

    def done(self):
        return len(self.results) == self.chunks

    def sums(self):
        """The result as the program wants it."""
        out = []
        for j in range(self.data):
            out += self.block_of_sums(j)
        return out[:self.total]

    def block_of_sums(self, j):
        """Of data chunk j, padding included but for digits of no value."""
        values = self.results[self.priming + j][1]
        if self.exact:
            return [from_digits(values[i:i + DIGITS]) for i in range(0, len(self.block(j)) * DIGITS, DIGITS)]
        return dequantise(values, self.results[j][0].exponent, self.world, self.dtype) if self.quantised else values


def as_bytes(values, dtype):
    """Little-endian, as programs have them in memory."""
    return struct.pack(f"<{len(values)}{'f' if dtype else 'i'}", *values)
