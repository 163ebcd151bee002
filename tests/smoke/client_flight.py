"""Chunks on their way: window, timers, results, and the copies that answer peers: docs/protocol.md, 7 to 9."""
import collections
import struct

import client_wire as wire
from client_wire import Dropped, signed


class Chunk:
    """One chunk that has no result yet."""

    def __init__(self, operation, place):
        self.operation, self.place = operation, place
        self.ever_sent = False
        self.new_epoch()

    def new_epoch(self):
        self.sendings = self.timeouts = self.queries = self.sequence = 0
        self.sent_at = self.due = None


class RoundTrips:
    """RFC 6298 with one estimator for all chunks."""
    FLOOR = 0.020  # this client sleeps

    def __init__(self):
        self.smooth = self.varies = None
        self.rto = 0.1
        self.backed_off = 1
        self.round_began = 0
        self.without_sample = 32  # results since the last one

    def sample(self, seconds):
        self.backed_off = 1
        self.without_sample = 0
        if self.smooth is None:
            self.smooth, self.varies = seconds, seconds / 2
        else:
            self.varies = 0.75 * self.varies + 0.25 * abs(self.smooth - seconds)
            self.smooth = 0.875 * self.smooth + 0.125 * seconds
        self.rto = min(1, max(self.FLOOR, self.smooth + 4 * self.varies))

    def no_sample(self):
        if self.without_sample < 32:
            self.without_sample += 1
            self.backed_off = 1

    def wait(self):
        return min(1, self.rto * self.backed_off)

    def timed_out(self, now, sent_at):
        if sent_at >= self.round_began:
            self.backed_off, self.round_began = min(64, self.backed_off * 2), now


class Flight:
    """What a running member sends and takes. `member` says who it is (client_member.py)."""

    def __init__(self, member):
        self.member = member
        self.chunks = {}  # by number, without a result
        self.copies = collections.OrderedDict()  # by number: (header, payload) of accepted results
        self.lowest = self.following = self.numbered = member.record.first_chunk
        self.trips = RoundTrips()
        self.counts = collections.Counter()
        self.sequences = collections.Counter()  # by shard, of the epoch

    def issue(self, operation):
        count = operation.number(self.numbered, self.member.record, self.member.world)
        for place in range(count):
            self.chunks[(self.numbered + place) & wire.M32] = Chunk(operation, place)
        self.numbered = (self.numbered + count) & wire.M32

    def new_epoch(self):
        self.trips.backed_off = 1
        self.sequences.clear()
        for chunk in self.chunks.values():
            chunk.new_epoch()

    def send_due(self, now):
        """Everything whose time has come. Returns when the next thing is due."""
        window = (self.lowest + place & wire.M32 for place in range(self.member.window))
        inside = [(number, self.chunks[number]) for number in window if number in self.chunks]
        for number, chunk in sorted((c for c in inside if c[1].due is not None and c[1].due <= now),
                                    key=lambda pair: pair[1].sent_at):
            self.trips.timed_out(now, chunk.sent_at)
            self.repeat(number, chunk, now)
        for number, chunk in inside:
            if chunk.due is None and chunk.operation.ready(chunk.place):
                self.contribute(number, chunk, now)
        return min((chunk.due for _, chunk in inside if chunk.due is not None), default=now + 1)

    def repeat(self, number, chunk, now):
        chunk.timeouts += 1
        if chunk.timeouts <= 3 or self.member.world == 1 or chunk.timeouts % 2:
            self.contribute(number, chunk, now)
            return
        others = [(self.member.most_advanced + i) % self.member.world for i in range(self.member.world)]
        others.remove(self.member.rank)
        peer = others[chunk.queries % len(others)]
        chunk.queries += 1
        chunk.sent_at, chunk.due = now, now + self.trips.wait()
        self.counts["queries"] += 1
        self.member.send_data(wire.QUERY, number, contributors=1 << peer, dtype=chunk.operation.dtype,
                              total=chunk.operation.total & wire.M32)

    def contribute(self, number, chunk, now, flags=0):
        values, overflow = chunk.operation.contribution(chunk.place)
        flags |= (wire.RETRANSMIT if chunk.ever_sent else 0) | (wire.OVERFLOW if overflow else 0)
        self.counts["retransmissions" if chunk.ever_sent else "contributions"] += 1
        if not chunk.ever_sent:
            self.following = (number + 1) & wire.M32 if signed(number - self.following) >= 0 else self.following
        chunk.ever_sent = True
        chunk.sendings += 1
        chunk.sent_at, chunk.due = now, now + self.trips.wait()
        key = wire.rank_key(self.member.record.generation, self.member.rank)
        sum1, sum2 = wire.sums(key, number, values)
        shard = self.member.slot(number) % self.member.shards
        self.sequences[shard] += 1
        chunk.sequence = self.sequences[shard]
        self.member.send_data(wire.CONTRIBUTE, number, wire.values_to_bytes(values), slot=chunk.sequence, flags=flags,
                              elements=len(values), dtype=chunk.operation.dtype,
                              exponent=chunk.operation.exponent(chunk.place), contributors=1 << self.member.rank, sum1=sum1, sum2=sum2,
                              total=chunk.operation.total & wire.M32)

    def lacking(self, shard, first, missing, now):
        """The box has not got these contributions: those that are the last of their chunk again."""
        for number, chunk in list(self.chunks.items()):
            bit = chunk.sequence - first
            if 0 <= bit < 64 and missing >> bit & 1 and self.member.slot(number) % self.member.shards == shard:
                self.contribute(number, chunk, now)

    def take_result(self, header, payload, now):
        """Section 9, in its order; who calls has checked 1 and 2."""
        distance = signed(header.chunk - self.lowest)
        chunk = self.chunks.get(header.chunk)
        if not 0 <= distance < self.member.record.largest_window or chunk is None or not chunk.ever_sent:
            raise Dropped("late")
        if header.slot != self.member.slot(header.chunk) or header.contributors != self.member.everybody():
            raise Dropped("slot or contributors")
        operation, place = chunk.operation, chunk.place
        if (header.elements, header.dtype, header.total) != (operation.size(place), operation.dtype, operation.total):
            raise Dropped("shape")
        own, got = operation.exponent(place), header.exponent
        if own == wire.NONE and got != wire.NONE:
            raise Dropped("exponent")
        if own != wire.NONE and (got < own or got not in (-127, *range(-96, 128))):
            raise Dropped("exponent")
        values = list(struct.unpack(f">{header.elements}i", payload))
        if wire.sums(self.member.key_sum(), header.chunk, values) != (header.sum1, header.sum2):
            raise Dropped("sums")
        if chunk.sendings == 1 and chunk.queries == 0:
            self.trips.sample(now - chunk.sent_at)
        else:
            self.trips.no_sample()
        operation.accept(place, header, values, bool(header.flags & wire.OVERFLOW))
        del self.chunks[header.chunk]
        self.copies[header.chunk] = (header, payload)
        self.counts["results"] += 1
        while self.lowest != self.numbered and self.lowest not in self.chunks:
            self.copies.pop((self.lowest - 2 * self.member.record.largest_window) & wire.M32, None)
            self.lowest = (self.lowest + 1) & wire.M32

    def answer(self, number, asker):
        """What a peer, or a server, asked for; silence if it is not here."""
        if number in self.copies:
            header, payload = self.copies[number]
            self.counts["answers"] += 1
            self.member.send_data(wire.ANSWER, number, payload, flags=header.flags & wire.OVERFLOW, slot=asker,
                                  elements=header.elements, dtype=header.dtype, exponent=header.exponent,
                                  contributors=header.contributors, sum1=header.sum1, sum2=header.sum2,
                                  total=header.total)
            return True
        return False

    def resend(self, number, server, now):
        chunk = self.chunks.get(number)
        if chunk is not None and chunk.sendings:
            self.contribute(number, chunk, now, wire.DIRECT)
        else:
            self.answer(number, server)
