"""One rank of a job: joins, stays, sums, leaves: docs/protocol.md, sections 0.4 and 5. One thread; step() is a turn."""
import collections
import secrets
import time

import client_control as control
import client_wire as wire
from client_flight import Failed, Flight
from client_operation import NotANumber
from client_wire import Dropped

GAPS = (0.1, 0.2, 0.4, 0.8, 1)  # seconds between repetitions of JOIN, LEAVE and ABORT
HINT_GAP = 0.1  # seconds between HEARTBEATs that hints cause


class Closed(Exception):
    """The membership is over; the text says why."""


class NewGeneration(Exception):
    """The operations at work are lost, but this rank is a member: the program may begin others."""


class Member:
    """rank of job `name`. link: sends to a shard and receives (client_link.py). state: joining, running, leaving or
    closed; while `farewell`, the barrier before LEAVE, is at work, running is the page's leaving-barrier."""

    def __init__(self, link, name, rank, world, token="", elements=352):
        self.link, self.name, self.rank, self.world, self.wish = link, name.encode(), rank, world, elements
        self.job_key = control.job_key(self.name, token.encode())
        self.state, self.why, self.farewell = "joining", "", None
        self.dropped = collections.Counter()
        self.joins = self.epochs = self.echoes = self.hints = 0
        self.missing = self.alive = 0  # ranks that others wait for; that have joined and have not left
        # Of joining.
        self.instance, self.nonce, self.attempt = secrets.randbits(63) + 1, 0, 0
        self.challenge, self.challenged = control.NO_CHALLENGE, False  # challenged: within this interval
        self.heard = time.monotonic()
        self.last_join, self.next_join, self.gap = 0, self.heard, 0
        # Of the epoch entered last.
        self.record, self.joined, self.flight = control.NO_RECORD, None, None
        self.job = self.epoch = self.cookie = self.box_cookie = self.priority = self.window = self.most_advanced = 0
        self.lease, self.shards = 10.0, 1
        self.key, self.taken = b"", -1  # the session's, and the greatest counter that came under it
        self.counter = secrets.randbits(62)
        self.unanswered = collections.deque(maxlen=64)  # counters of HEARTBEATs since control spoke last
        self.next_heartbeat = self.last_hint = 0
        self.answered = False  # LEAVE, or ABORT

    # What a program does with one.

    def join(self, seconds=30):
        self.run_until(lambda: self.state == "running", seconds, "all ranks to join")

    def allreduce(self, values, dtype, seconds=60):
        return self.allreduce_all([values], dtype, seconds=seconds)[0]

    def allreduce_all(self, arrays, dtype, exact=None, seconds=60):
        """Several operations, all issued before the first is waited for."""
        operations = [self.issue(values, dtype, exact=exact) for values in arrays]
        self.run_until(lambda: all(o.done() for o in operations), seconds, "the sums")
        return [operation.sums() for operation in operations]

    def issue(self, values, dtype, propagate=False, exact=None):
        try:
            return self.flight.issue(values, dtype, propagate, exact)
        except NotANumber as reason:
            self.abort(str(reason))
            raise Closed(self.why) from None

    def barrier(self, seconds=60):
        operation = self.issue([], 0)
        self.run_until(operation.done, seconds, "everybody at the barrier")

    def rest(self, seconds):
        """Stays a member and issues nothing."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.state != "closed":
            self.step(end)

    def leave(self, seconds=60):
        """All results are in."""
        self.farewell = self.issue([], wire.FAREWELL)
        # Who has left had the barrier's result, and before that everybody had all others.
        self.run_until(lambda: self.left() or self.state == "running" and
                       (self.farewell.done() or self.alive != self.everybody()), seconds, "everybody to leave")
        if not self.left():
            self.state = "leaving"
            self.say(wire.LEAVE)
            self.close("left the job")

    def abort(self, text):
        """A failure of this rank: the others must not wait for it."""
        if self.state != "closed":
            self.close(text)
            if self.epoch:
                self.say(wire.ABORT, text.encode()[:512])

    # What the flight asks.

    def everybody(self):
        return 2**self.world - 1

    def key_sum(self):
        return sum(wire.rank_key(self.record.generation, rank) for rank in range(self.world)) & wire.M32

    def slot(self, chunk):
        if self.joined.discipline == 1:
            return chunk % self.window
        if self.joined.discipline == 4:
            return chunk % (2 * self.record.largest_window)
        return wire.mix64(self.joined.salt ^ (self.job * 2**32 + chunk)) % self.joined.shared_slots

    def send_data(self, kind, chunk, payload=b"", slot=None, **fields):
        own = self.slot(chunk)
        self.link.send(own % self.shards,
                       wire.make(kind, payload, job=self.job, rank=self.rank, epoch=self.epoch, chunk=chunk,
                                 slot=own if slot is None else slot, priority=self.priority, cookie=self.cookie,
                                 **fields))

    # The loop.

    def run_until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            if self.state == "closed":
                raise Closed(self.why)
            if time.monotonic() > end:
                self.abort(f"waited {seconds} s for {what}; awaited: {self.missing:#x}, alive: {self.alive:#x}")
                raise TimeoutError(self.why)
            self.step(end)

    def step(self, end):
        """One turn: takes what has come, sends what is due, and waits until the next thing is due, or `end`."""
        while self.receive(0):
            pass  # before the silence of the box is judged
        due = min(end, self.send_due(time.monotonic()))
        self.receive(max(0, due - time.monotonic()))

    def receive(self, seconds):
        """How many datagrams came."""
        found = self.link.receive(seconds)
        for data in found:
            try:
                self.take(*wire.parse(data), time.monotonic())
            except Dropped as reason:
                self.dropped[str(reason)] += 1
            except Failed as reason:
                self.abort(str(reason))
        return len(found)

    def send_due(self, now):
        """Returns when the next thing is due."""
        if self.state == "closed":
            return now + 1
        silent = self.heard + (max(3, self.lease) if self.state == "joining" else self.lease)
        if now > silent:
            refused = f"; {self.why}" if self.why else ""
            self.close("left the job" if self.may_have_left() else "switch unreachable" + refused)
            return now
        if self.state == "running":
            half = max(self.heard, self.flight.last_result) + self.lease / 2
            if now > half:
                self.join_anew(now)
            silent = min(silent, half)
        if self.state == "joining":
            if now >= self.next_join:
                self.gap = min(1, 2 * self.gap) or GAPS[0]
                self.challenged = False
                self.send_join(now)
            return min(silent, self.next_join)
        if now >= self.next_heartbeat:
            self.send_heartbeat(now)
        due = self.flight.send_due(now) if self.state == "running" else now + 1
        return min(silent, self.next_heartbeat, due)

    def say(self, kind, text=b""):
        """LEAVE or ABORT, until it is answered, at most five times."""
        self.answered, state = False, self.state
        for gap in GAPS:
            self.send_counted(kind, text)
            end = time.monotonic() + gap
            while time.monotonic() < end:
                if self.answered or self.state != state:
                    return
                self.step(end)

    def close(self, why):
        self.state, self.why = "closed", why

    def may_have_left(self):
        """Joining, from the barrier before LEAVE."""
        return self.state == "joining" and self.farewell is not None

    def left(self):
        return self.state == "closed" and self.why == "left the job"

    # Joining.

    def join_anew(self, now):
        self.state, self.gap, self.why = "joining", 0, ""
        self.next_join = max(now, self.last_join + GAPS[0])

    def send_join(self, now):
        self.nonce, self.attempt = secrets.randbits(64), (self.attempt + 1) & wire.M32
        known = self.record != control.NO_RECORD
        self.link.send(0, control.join(
            self.job_key, self.name, self.rank, self.instance, self.nonce, self.attempt,
            self.flight.lowest if known else 0, self.flight.following if known else 0, self.world, self.wish,
            self.record, self.challenge))
        self.joins += 1
        self.last_join, self.next_join = now, now + self.gap

    def take_challenge(self, nonce, challenge, now):
        if self.state != "joining" or nonce != self.nonce:
            raise Dropped("nonce")
        self.challenge = challenge
        if not self.challenged:
            self.challenged = True
            self.send_join(now)

    def take_joined(self, header, joined, now):
        if self.state != "joining" or joined.nonce != self.nonce or header.rank != wire.BOX:
            raise Dropped("nonce")
        if not joined.tagged and joined.status != control.REFUSED:
            raise Dropped("tag")
        if joined.status == control.REFUSED:
            self.take_refusal(joined)
        elif joined.status == control.FORMING:
            self.heard, self.missing = now, joined.missing
        elif joined.status == control.RUNNING:
            self.check_running(header, joined)
            self.enter(header, joined, now)
        else:
            raise Dropped("status")

    def take_refusal(self, joined):
        """Without a tag anybody on the path made it: who has operations to lose asks on."""
        self.why = f"refused: {joined.text}"
        if joined.tagged or self.record == control.NO_RECORD:
            self.close("left the job" if self.may_have_left() else self.why)

    def check_running(self, header, joined):
        record = joined.record
        powers = (joined.window, record.largest_window, record.lookahead)
        good = (1 <= header.job <= 1024 and header.epoch and record.generation and joined.lease
                and all(p in [2**n for n in range(4, 15)] for p in powers)
                and max(joined.window, record.lookahead) <= record.largest_window
                and record.elements % 16 == 0 and 16 <= record.elements <= self.wish
                and joined.most_advanced < joined.world and 1 <= joined.shards <= 64 and 1 <= joined.discipline <= 4
                and (joined.discipline == 1 or joined.shared_slots >= joined.shards)
                and header.priority != 255 and joined.results in (1, 2)
                and (joined.discipline == 1 or not header.flags & wire.INCOMPLETE))
        if not good:
            raise Dropped("joined")
        if joined.world != self.world:
            self.close(f"the job has {joined.world} workers")
            raise Dropped("world")

    def enter(self, header, joined, now):
        same, new_epoch = joined.record == self.record, header.epoch != self.epoch
        lost = not same and self.flight is not None and self.flight.chunks
        self.state, self.why, self.heard, self.joined, self.record = "running", "", now, joined, joined.record
        self.job, self.epoch, self.box_cookie = header.job, header.epoch, header.cookie
        self.cookie, self.window, self.shards = joined.cookie, joined.window, joined.shards
        self.most_advanced, self.lease = joined.most_advanced, joined.lease / 1000
        self.priority = 0 if joined.discipline == 1 else header.priority or 254
        self.missing, self.alive = 0, self.everybody()
        key = control.session_key(self.job_key, self.record.generation, self.epoch, self.box_cookie, self.cookie,
                                  self.instance, self.rank)
        if key != self.key:
            self.key, self.taken = key, -1
        self.unanswered.clear()
        self.next_heartbeat = now + self.heartbeat_interval()
        self.epochs += new_epoch
        if not same:
            self.flight = Flight(self)
        elif new_epoch:
            self.flight.new_epoch()
        if header.flags & wire.INCOMPLETE:
            raise Failed("this client waits for everybody; the job does not")
        if joined.results == 2:
            self.link.join_group(joined.group, joined.group_port)
        if not same and self.farewell is not None:
            raise Failed("leaving: takes no part in a new generation")
        if lost:
            raise NewGeneration(f"new generation, for ranks {joined.missing:#x} came without the record")

    # Staying.

    def heartbeat_interval(self):
        return min(self.lease / 10, 1)

    def send_heartbeat(self, now):
        self.send_counted(wire.HEARTBEAT, self.name)
        self.unanswered.append(self.counter)
        self.next_heartbeat = now + self.heartbeat_interval()

    def send_counted(self, kind, text):
        self.counter += 1
        key = self.job_key if kind == wire.HEARTBEAT else self.key
        self.link.send(0, control.counted(
            key, kind, self.counter, text, job=self.job, rank=self.rank, epoch=self.epoch, cookie=self.cookie,
            contributors=self.instance if kind == wire.HEARTBEAT else 0,
            chunk=0 if kind == wire.ABORT else self.flight.following))

    def take_counted(self, header, payload):
        """The text of a control packet under the session's key that says something new."""
        counter, text = control.parse_counted(self.key, header, payload)
        if counter <= self.taken:
            raise Dropped("counter")
        if text and header.type != wire.ABORT:
            raise Dropped("length")
        self.taken = counter
        return text

    def take(self, header, payload, now):
        if header.type == wire.CHALLENGE:
            self.take_challenge(*control.parse_challenge(payload), now)
        elif header.type == wire.JOINED:
            self.take_joined(header, control.parse_joined(self.job_key, header, payload), now)
        elif self.epoch == 0 or (header.job, header.epoch) != (self.job, self.epoch):
            raise Dropped("epoch")
        elif header.type == wire.REJECT and header.rank == wire.BOX and header.slot in (wire.EPOCH, wire.JOB):
            self.take_reject(header, payload, now)
        elif header.cookie != self.box_cookie:
            raise Dropped("cookie")
        elif header.rank == wire.BOX and header.type in (wire.HEARTBEAT, wire.LEAVE, wire.ABORT):
            self.take_control(header, payload, now)
        elif self.state != "closed":
            self.take_data(header, payload, now)

    def take_reject(self, header, payload, now):
        if self.state != "running":
            raise Dropped("state")
        if not payload:  # a data core's, or anybody's: control knows
            self.hints += 1
            self.next_heartbeat = min(self.next_heartbeat, max(now, self.last_hint + HINT_GAP))
            self.last_hint = self.next_heartbeat
            return
        if header.slot == wire.EPOCH:
            self.take_counted(header, payload)
        elif control.parse_counted(self.job_key, header, payload)[0] not in self.unanswered:
            raise Dropped("counter")
        self.join_anew(now)

    def take_control(self, header, payload, now):
        text = self.take_counted(header, payload)
        self.unanswered.clear()
        if header.type == wire.HEARTBEAT:
            self.heard, self.alive, self.echoes = now, header.contributors, self.echoes + 1
        elif header.type == wire.LEAVE:
            self.answered |= self.state == "leaving"
        elif self.state == "closed":
            self.answered = True
        else:
            self.close(wire.printable(text))

    def take_data(self, header, payload, now):
        from_box = header.rank == wire.BOX
        if header.type == wire.RESULT and from_box:
            if header.flags & ~(wire.RETRANSMIT | wire.OVERFLOW | wire.ZERO | wire.SERVED):
                raise Dropped("flags")
            self.flight.take_result(header, payload, now)
        elif self.state == "joining":
            raise Dropped("state")  # whatever else would have it send data
        elif header.type == wire.QUERY and header.rank < self.world and header.contributors == 1 << self.rank:
            self.flight.answer(header.chunk, header.rank)
        elif header.type == wire.NACK and from_box:
            self.flight.lacking(header.total, header.slot, header.contributors, now)
        elif header.type == wire.RESEND and 0xFF00 <= header.rank <= 0xFF0F and header.contributors >> self.rank & 1:
            self.flight.resend(header.chunk, header.rank, now)
        elif header.type == wire.REJECT and from_box and header.slot == wire.WAITING:
            if header.contributors:
                self.missing = self.everybody() & ~header.contributors
            self.flight.waiting(header.chunk, header.contributors, now)
        else:
            raise Dropped("type")
