"""Chunks on their way: window, timers, questions, results, copies for peers: docs/protocol.md, 7 to 9."""
import collections

import client_wire as wire
from client_operation import Operation
from client_wire import Dropped, signed

QUESTIONS = 3  # early ones for a chunk in an epoch


class Failed(Exception):
    """An operation failed at this rank; the text says why. The others must hear it: ABORT."""


class Chunk:
    """One chunk that has no result yet."""

    def __init__(self, operation, place):
        self.operation, self.place = operation, place
        self.ever_sent = False
        self.wrong = 0  # RESULTs with wrong contents
        self.new_epoch()

    def new_epoch(self):
        self.sendings = self.contributions = self.timeouts = self.questions = 0
        self.queries = 0  # those that name a peer
        self.sequence = self.number = 0  # of the last contribution; of the last sending of any kind
        self.first_at = self.sent_at = self.due = None  # due: when its timer runs out
        self.asked = False  # since the last contribution
        self.questioned = False  # its last sending was an early question
        self.finished = 0  # RESULTs that say so since the last question
        self.unfinished = None  # (sendings so far, time) when the box said so
        self.held = False  # a RESULT said so


class RoundTrips:
    """RFC 6298 with one estimator for all chunks."""
    FLOOR = 0.020  # this client sleeps

    def __init__(self):
        self.smooth = self.varies = None
        self.rto = 0.1
        self.doubled = 0  # how many times
        self.round_began = self.batch_ends = 0
        self.batch = 0  # chunks sent again because of their timers within one RTO, until batch_ends
        self.without_sample = 32  # results since the last one
        self.newest = collections.deque(maxlen=64)  # samples

    def sample(self, seconds):
        self.doubled = self.without_sample = 0
        self.newest.append(seconds)
        if self.smooth is None:
            self.smooth, self.varies = seconds, seconds / 2
        else:
            self.varies = 0.75 * self.varies + 0.25 * abs(self.smooth - seconds)
            self.smooth = 0.875 * self.smooth + 0.125 * seconds
        self.rto = min(1, self.smooth + max(self.FLOOR, 4 * self.varies))

    def no_sample(self):
        if self.without_sample < 32:
            self.without_sample += 1
            self.doubled = 0

    def wait(self):
        return min(1, self.rto * 2**self.doubled)

    def may_repeat(self, now, sent_at, window):
        """A timer ran out: backs off, once per round. False: so many chunks went again that this one waits until
        batch_ends."""
        if sent_at >= self.round_began:
            self.doubled, self.round_began = min(6, self.doubled + 1), now
        if self.doubled == 0:
            return True
        if now >= self.batch_ends:
            self.batch, self.batch_ends = 0, now + self.wait()
        self.batch += 1
        return self.batch <= max(16, window >> self.doubled)

    def patience(self):
        """Half of the time in which a contribution that anybody lost is told and repaired."""
        return min(1, self.newest[-1] + min(self.newest) / 2)

    def round(self, tells):
        """tells: the box says what is finished, and time is for the end of the work only."""
        return min(1, max(0.0005, self.newest[-1] + 2 * min(self.newest) if tells else min(self.newest)))


class Flight:
    """What a running member sends and takes in one generation. `member` says who it is (client_member.py)."""

    def __init__(self, member):
        self.member = member
        self.chunks = {}  # by number, without a result
        self.copies = collections.OrderedDict()  # by number: (header, payload) of accepted results
        self.lowest = self.following = self.numbered = member.record.first_chunk
        self.trips = RoundTrips()
        self.counts = collections.Counter()
        self.sendings = 0  # contributions and QUERYs
        self.last_result = 0
        self.new_epoch()

    def new_epoch(self):
        self.trips.doubled = 0
        self.sequences = collections.Counter()  # by shard: its newest
        self.overtakes = collections.Counter()  # by shard: the greatest number of what was sent once and has a RESULT
        self.newest_first = 0  # number of the newest first sending
        self.quiet = True  # no chunk may be sent for the first time now
        for chunk in self.chunks.values():
            chunk.new_epoch()

    def issue(self, values, dtype, propagate=False, exact=None):
        operation = Operation(values, dtype, self.member.record, self.member.world, propagate, exact)
        for place in range(operation.chunks):
            self.chunks[(self.numbered + place) & wire.M32] = Chunk(operation, place)
        self.numbered = (self.numbered + operation.chunks) & wire.M32
        return operation

    # Sending.

    def shard(self, number):
        return self.member.slot(number) % self.member.shards

    def tells(self):
        """The box says in RESULTs of all chunks before them whether they are finished."""
        return self.member.joined.discipline == 1 and self.member.world > 1

    def send_due(self, now):
        """Everything whose time has come. Returns when the next thing is due."""
        window = (self.lowest + place & wire.M32 for place in range(self.member.window))
        inside = [(number, self.chunks[number]) for number in window if number in self.chunks]
        fresh = [(number, chunk) for number, chunk in inside
                 if chunk.sent_at is None and chunk.operation.ready(chunk.place)]
        flying = sorted((pair for pair in inside if pair[1].sent_at is not None), key=lambda pair: pair[1].sent_at)
        self.quiet = not fresh
        plans = [(number, chunk, *self.plan(number, chunk)) for number, chunk in flying]
        for what in (self.repeat, self.ask):
            for number, chunk, when, planned in plans:
                if planned == what and when <= now:
                    what(number, chunk, now)
        for number, chunk in fresh:
            self.contribute(number, chunk, now)
        self.quiet = True
        return min((self.plan(number, chunk)[0] for number, chunk in inside if chunk.sent_at is not None),
                   default=now + 1)

    def lead(self):
        return max(3, min(32, self.member.window // 8))

    def overtaken(self, number, chunk):
        """A chunk of the same shard has its RESULT that was sent `lead` or more after this one."""
        last = self.quiet and self.newest_first - chunk.number < self.lead()
        return self.overtakes[self.shard(number)] - chunk.number >= (3 if last else self.lead())

    def unanswered(self, number, chunk):
        """Where the box tells: what was sent after the question is answered."""
        return self.tells() and self.overtakes[self.shard(number)] - chunk.number >= 3

    def plan(self, number, chunk):
        """(when, what) is next for a chunk that was sent."""
        if not self.trips.newest or chunk.questions >= QUESTIONS:
            return chunk.due, self.repeat
        if chunk.questioned:
            return chunk.sent_at + (0 if self.unanswered(number, chunk) else self.trips.round(self.tells())), self.ask
        if chunk.finished >= 3:
            return chunk.sent_at, self.ask
        if chunk.unfinished:
            since, when = chunk.unfinished
            lost = self.overtakes[self.shard(number)] - since >= self.lead()
            return when + (0 if lost else self.trips.round(True)), self.ask
        if self.overtaken(number, chunk):
            return chunk.sent_at + self.trips.patience(), self.ask
        return chunk.due, self.repeat

    def repeat(self, number, chunk, now):
        """Its timer ran out."""
        if not self.trips.may_repeat(now, chunk.sent_at, self.member.window):
            chunk.due = self.trips.batch_ends
            return
        chunk.timeouts += 1
        if chunk.timeouts <= 3 or self.member.world == 1 or chunk.timeouts % 2:
            self.contribute(number, chunk, now)
        else:
            self.query(number, chunk, now, self.next_peer(chunk))

    def next_peer(self, chunk):
        others = [(self.member.most_advanced + i) % self.member.world for i in range(self.member.world)]
        others.remove(self.member.rank)
        chunk.queries += 1
        return 1 << others[(chunk.queries - 1) % len(others)]

    def ask(self, number, chunk, now):
        """Has the box a result, or does it lack our contribution? The third question is for a peer: the box may not
        know that others have the result."""
        chunk.questions, chunk.finished = chunk.questions + 1, 0
        self.counts["questions"] += 1
        if self.member.world == 1:
            self.contribute(number, chunk, now)
        else:
            self.query(number, chunk, now, self.next_peer(chunk) if chunk.questions == 3 else 0,
                       0 if chunk.questions % 2 else wire.DIRECT)
        chunk.questioned = chunk.questions < QUESTIONS

    def query(self, number, chunk, now, contributors, flags=0):
        self.sent(chunk, now)
        chunk.asked = True
        self.counts["queries"] += 1
        self.member.send_data(wire.QUERY, number, flags=flags, contributors=contributors, dtype=chunk.operation.dtype,
                              total=chunk.operation.total & wire.M32)

    def sent(self, chunk, now):
        self.sendings += 1
        chunk.sendings += 1
        chunk.number = self.sendings
        chunk.sent_at, chunk.due = now, now + self.trips.wait()
        chunk.questioned = False

    def contribute(self, number, chunk, now, flags=0):
        operation = chunk.operation
        values, overflow = operation.contribution(chunk.place)
        flags |= (wire.RETRANSMIT if chunk.ever_sent else 0) | (wire.OVERFLOW if overflow else 0)
        self.counts["retransmissions" if chunk.ever_sent else "contributions"] += 1
        if not chunk.ever_sent and signed(number - self.following) >= 0:
            self.following = (number + 1) & wire.M32
        self.sent(chunk, now)
        chunk.contributions += 1
        if chunk.sendings == 1:
            self.newest_first, chunk.first_at = chunk.number, now
        chunk.ever_sent, chunk.asked, chunk.unfinished = True, False, None
        shard = self.shard(number)
        self.sequences[shard] += 1
        chunk.sequence = self.sequences[shard]
        sum1, sum2 = wire.sums(wire.rank_key(self.member.record.generation, self.member.rank), number, values)
        payload = wire.values_to_bytes(values, operation.dtype)
        if values and not any(values):
            flags, payload = flags | wire.ZERO, b""
        self.member.send_data(wire.CONTRIBUTE, number, payload, slot=chunk.sequence, flags=flags,
                              elements=len(values), dtype=operation.dtype, exponent=operation.exponent(chunk.place),
                              contributors=1 << self.member.rank, sum1=sum1, sum2=sum2,
                              total=operation.total & wire.M32)

    # What the box, peers and servers say.

    def lacking(self, shard, first, missing, now):
        """NACK: these contributions have not come. Those that are the last of their chunk go again."""
        for number, chunk in list(self.chunks.items()):
            behind = chunk.sequence - first & wire.M32
            if chunk.sequence and behind < 64 and missing >> behind & 1 and self.shard(number) == shard:
                self.contribute(number, chunk, now)

    def waiting(self, number, there, now):
        """REJECT(waiting): only the ranks `there` are known to be in the chunk."""
        chunk = self.chunks.get(number)
        if chunk is None or not chunk.asked:
            return
        if there >> self.member.rank & 1:
            if self.tells():
                chunk.asked, chunk.questioned, chunk.unfinished = False, False, (self.sendings, now)
        else:
            self.contribute(number, chunk, now)

    def take_result(self, header, payload, now):
        """Section 9, in its order; who calls has checked 1 and 2."""
        chunk = self.chunks.get(header.chunk)
        near = 0 <= signed(header.chunk - self.lowest) < self.member.record.largest_window
        if not near or chunk is None or not chunk.ever_sent:
            raise Dropped("late")
        if header.contributors != self.member.everybody():
            raise Dropped("contributors")
        try:
            values = self.checked_values(chunk, header, payload)
        except Dropped as reason:
            chunk.wrong += 1
            if chunk.wrong == 3:
                raise Failed(f"three results of chunk {header.chunk} with wrong contents: {reason}") from None
            raise
        first = not header.flags & wire.RETRANSMIT  # a repeated one may have been stored in the box for long
        repaired = chunk.held or chunk.sendings > 1 and not self.tells()  # by somebody, perhaps
        if first and chunk.contributions == 1 and not repaired:
            self.trips.sample(now - chunk.first_at)
        else:
            self.trips.no_sample()
        if first and chunk.sendings == 1:
            shard = self.shard(header.chunk)
            self.overtakes[shard] = max(self.overtakes[shard], chunk.number)
        chunk.operation.accept(chunk.place, header, values, bool(header.flags & wire.OVERFLOW))
        if chunk.operation.refuses(chunk.place):
            raise Failed(f"of chunk {header.chunk} another rank has a value that is no number")
        del self.chunks[header.chunk]
        self.copies[header.chunk] = (header, payload)
        self.last_result = now
        self.counts["results"] += 1
        if first:
            self.look_before(header.chunk, header.slot, now)
        while self.lowest != self.numbered and self.lowest not in self.chunks:
            self.copies.pop((self.lowest - 2 * self.member.record.largest_window) & wire.M32, None)
            self.lowest = (self.lowest + 1) & wire.M32

    def look_before(self, number, before, now):
        """A RESULT says what was finished in its shard: bit i of the chunk i + 1 before it. Not of the two next to it,
        for the network may have changed their order. With shared slots what is not finished may be at a server."""
        for i in range(31, 1, -1):
            earlier = number - (i + 1) * self.member.shards & wire.M32
            chunk = self.chunks.get(earlier)
            # Of another shard are those beyond the end of a window that the shards do not divide.
            if chunk is None or not chunk.sendings or chunk.questioned or chunk.questions >= QUESTIONS:
                continue
            if self.shard(earlier) != self.shard(number):
                continue
            if before >> i & 1:
                chunk.finished += 1
            elif self.tells() and not chunk.unfinished:
                chunk.unfinished, chunk.held = (self.sendings, now), True

    def checked_values(self, chunk, header, payload):
        operation, place = chunk.operation, chunk.place
        shape = operation.size(place), operation.dtype, operation.total & wire.M32
        if (header.elements, header.dtype, header.total) != shape:
            raise Dropped("shape")
        own, got = operation.exponent(place), header.exponent
        if own == wire.NONE and got != wire.NONE:
            raise Dropped("exponent")
        if own != wire.NONE and (got < own or got not in (-127, *range(-96, 128))):
            raise Dropped("exponent")
        values = wire.bytes_to_values(header, payload)
        if wire.sums(self.member.key_sum(), header.chunk, values) != (header.sum1, header.sum2):
            raise Dropped("sums")
        return values

    def answer(self, number, asker):
        """What a peer, or a server, asked for; silence if it is not here."""
        if number in self.copies:
            header, payload = self.copies[number]
            self.counts["answers"] += 1
            self.member.send_data(wire.ANSWER, number, payload, flags=header.flags & (wire.OVERFLOW | wire.ZERO), slot=asker,
                                  elements=header.elements, dtype=header.dtype, exponent=header.exponent,
                                  contributors=header.contributors, sum1=header.sum1, sum2=header.sum2,
                                  total=header.total)

    def resend(self, number, server, now):
        chunk = self.chunks.get(number)
        if chunk is None:
            self.answer(number, server)
        elif chunk.sendings:
            self.contribute(number, chunk, now, wire.DIRECT)
