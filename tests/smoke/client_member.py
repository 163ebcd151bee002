"""One rank of a job: stays, sums, leaves: docs/protocol.md, section 5. One thread; step() is a turn."""
import collections
import secrets
import time

import client_wire as wire
from client_joining import Joining
from client_operation import Operation
from client_wire import Dropped


class Closed(Exception):
    """The membership is over; the text says why."""


class Member(Joining):
    """rank of job `name`. link: sends to a shard and receives (client_link.py)."""

    def __init__(self, link, name, rank, world, token="", elements=352, expected=None):
        self.link, self.name, self.rank, self.world = link, name.encode(), rank, world
        self.token, self.wish = token.encode(), elements
        self.state = "joining"
        self.instance, self.attempt, self.record = secrets.randbits(63) + 1, 0, wire.NO_RECORD
        self.flight, self.joined = None, None
        self.job = self.epoch = self.cookie = self.box_cookie = self.next_heartbeat = 0
        self.lease, self.window, self.shards = 10.0, 0, 1
        self.why, self.missing, self.alive = "", 0, 0
        self.leave_heard = False
        self.dropped = collections.Counter()
        self.joins = self.epochs = self.echoes = 0
        self.heard = time.monotonic()
        self.next_join, self.join_gap = self.heard, 0.1

    # What others ask of a member.

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
                                 slot=own if slot is None else slot, cookie=self.cookie, **fields))

    def send_control(self, kind, payload=b""):
        self.link.send(0, wire.make(kind, payload, job=self.job, rank=self.rank, epoch=self.epoch, cookie=self.cookie,
                                    chunk=self.flight.following if kind != wire.ABORT and self.flight else 0))

    # What a program does with one.

    def join(self, seconds=30):
        self.run_until(lambda: self.state == "running", seconds, "all ranks to join")

    def allreduce(self, values, dtype, seconds=60):
        return self.allreduce_all([values], dtype, seconds)[0]

    def allreduce_all(self, arrays, dtype, seconds=60):
        """Several operations, all issued before the first is waited for."""
        operations = [self.issue(values, dtype) for values in arrays]
        self.run_until(lambda: all(o.done() for o in operations), seconds, "the sums")
        return [operation.sums() for operation in operations]

    def issue(self, values, dtype):
        operation = Operation(values, dtype, (2**31 - 1) // self.world)
        self.flight.issue(operation)
        return operation

    def barrier(self, seconds=60, dtype=0):
        operation = self.issue([], dtype)
        self.run_until(lambda: operation.done() or self.alive != self.everybody(), seconds, "everybody at the barrier")

    def leave(self, seconds=60):
        self.barrier(seconds, wire.FAREWELL)
        for gap in (0.1, 0.2, 0.4, 0.8, 1):
            self.send_control(wire.LEAVE)
            if self.listen_until(lambda: self.leave_heard, gap):
                break
        self.state, self.why = "closed", "left the job"

    def abort(self, text):
        """A failure of this rank: the others must not wait for it."""
        for gap in (0.1, 0.2, 0.4, 0.8, 1):
            self.send_control(wire.ABORT, text.encode()[:512])
            if self.listen_until(lambda: self.state == "closed", gap):
                break
        self.state, self.why = "closed", self.why or text

    # The loop.

    def run_until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            if self.state == "closed":
                raise Closed(self.why)
            if time.monotonic() > end:
                raise TimeoutError(f"waited {seconds} s for {what}; awaited: {self.missing:#x}, alive: {self.alive:#x}")
            self.step(end)

    def rest(self, seconds):
        """Stays a member and issues nothing."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.state != "closed":
            self.step(end)

    def listen_until(self, condition, seconds):
        end = time.monotonic() + seconds
        while not condition() and time.monotonic() < end:
            self.receive(end - time.monotonic())
        return condition()

    def step(self, end):
        """One turn: sends what is due, and takes what comes before the next thing is, or `end`."""
        now = time.monotonic()
        silence = self.lease if self.state == "running" else max(3, self.lease)
        if now - self.heard > silence:
            self.state, self.why = "closed", "switch unreachable"
            return
        due = min(end, self.heard + silence)
        if self.state == "joining":
            if now >= self.next_join:
                self.send_join(now)
            due = min(due, self.next_join)
        else:
            if now >= self.next_heartbeat:
                self.send_control(wire.HEARTBEAT)
                self.next_heartbeat = now + min(self.lease / 10, 1)
            due = min(due, self.next_heartbeat, self.flight.send_due(now))
        self.receive(due - time.monotonic())

    def receive(self, seconds):
        for data in self.link.receive(max(0, seconds)):
            try:
                self.take(*wire.parse(data), time.monotonic())
            except Dropped as reason:
                self.dropped[str(reason)] += 1

    # What comes.

    def take(self, header, payload, now):
        if header.type == wire.JOINED:
            self.take_joined(header, wire.parse_joined(payload), now)
            return
        if header.type == wire.REJECT and header.slot in (1, 2):
            mine = header.rank == wire.BOX and (header.job, header.epoch) == (self.job, self.epoch)
            if self.state == "running" and mine:
                self.join_anew(now)
            return
        if self.epoch == 0 or (header.job, header.epoch) != (self.job, self.epoch):
            raise Dropped("epoch")
        if header.cookie != self.box_cookie:
            raise Dropped("cookie")
        self.take_of_epoch(header, payload, now)

    def take_of_epoch(self, header, payload, now):
        from_box = header.rank == wire.BOX
        asks_me = header.contributors >> self.rank & 1
        if header.type == wire.RESULT and from_box:
            if header.flags & ~(wire.RETRANSMIT | wire.OVERFLOW | wire.SERVED):
                raise Dropped("flags")
            self.flight.take_result(header, payload, now)
        elif header.type == wire.QUERY and header.rank < self.world and header.contributors == 1 << self.rank:
            self.flight.answer(header.chunk, header.rank)
        elif header.type == wire.NACK and from_box:
            self.flight.lacking(header.total, header.slot, header.contributors, now)
        elif header.type == wire.RESEND and 0xFF00 <= header.rank <= 0xFF0F and asks_me:
            self.flight.resend(header.chunk, header.rank, now)
        elif header.type == wire.HEARTBEAT and from_box:
            self.heard, self.alive, self.echoes = now, header.contributors, self.echoes + 1
        elif header.type == wire.LEAVE and from_box:
            self.leave_heard = True
        elif header.type == wire.ABORT and from_box:
            self.state, self.why = "closed", wire.printable(payload)
        elif header.type == wire.REJECT and from_box and header.slot == 3:
            if header.contributors:
                self.missing = self.everybody() & ~header.contributors
        else:
            raise Dropped("type")
