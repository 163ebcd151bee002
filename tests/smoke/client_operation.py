"""Operations and their chunks: docs/protocol.md, section 6."""
import struct

from client_numbers import block_exponent, dequantise, quantise
from client_wire import NONE


class Operation:
    """One array, or nothing (a barrier). values: a list of numbers; dtype 0 int32, 1 float32, 255 the barrier of leaving."""

    def __init__(self, values, dtype, limit):
        self.values, self.dtype, self.limit = values, dtype, limit
        self.total = len(values)
        self.first = None

    def number(self, first, record, world):
        """It becomes chunks first, first + 1, ... Returns how many."""
        self.first, self.world, self.elements = first, world, record.elements
        self.data = (self.total + self.elements - 1) // self.elements
        self.priming = min(self.data, record.lookahead) if self.dtype == 1 else 0
        self.chunks = max(1, self.priming + self.data)
        self.exponents = [block_exponent(self.block(j)) for j in range(self.data)] if self.dtype == 1 else []
        self.results = {}  # by place in the operation: (header, values)
        self.overflow = False
        return self.chunks

    def block(self, j):
        return self.values[j * self.elements:(j + 1) * self.elements]

    def size(self, m):
        """`elements` of chunk m: the padded count of its data chunk."""
        if self.data == 0 or m < self.priming:
            return 0
        return (len(self.block(m - self.priming)) + 15) // 16 * 16

    def exponent(self, m):
        """What chunk m carries of this rank."""
        return self.exponents[m] if m < self.data and self.dtype == 1 else NONE

    def ready(self, m):
        """False while a data chunk waits for its block's exponent."""
        return self.dtype != 1 or m < self.priming or m - self.priming in self.results or self.data == 0

    def contribution(self, m):
        """Values of chunk m, padded, and whether some of them may make the sum leave int32."""
        if self.size(m) == 0:
            return [], False
        block = self.block(m - self.priming)
        if self.dtype == 1:
            block = quantise(block, self.results[m - self.priming][0].exponent, self.world)
        block = block + [0] * (self.size(m) - len(block))
        return block, any(abs(v) > self.limit for v in block)

    def accept(self, m, header, values, overflow):
        self.results[m] = (header, values)
        self.overflow |= overflow

    def done(self):
        return self.first is not None and len(self.results) == self.chunks

    def sums(self):
        """The result as the program wants it."""
        out = []
        for j in range(self.data):
            values = self.results[self.priming + j][1]
            out += values if self.dtype == 0 else dequantise(values, self.results[j][0].exponent, self.world)
        return out[:self.total]


def as_bytes(values, dtype):
    """Little-endian, as programs have them in memory."""
    return struct.pack(f"<{len(values)}{'f' if dtype else 'i'}", *values)
