"""How a member joins and enters an epoch: docs/protocol.md, 5.1 to 5.4."""
import secrets

import client_wire as wire
from client_flight import Flight
from client_wire import Dropped


class Joining:
    """The part of a Member (client_member.py) that speaks JOIN and hears JOINED."""

    def send_join(self, now):
        self.nonce, self.attempt = secrets.randbits(64), (self.attempt + 1) & wire.M32
        known = self.record != wire.NO_RECORD
        self.link.send(0, wire.make(wire.JOIN, wire.join_payload(
            self.instance, self.nonce, self.attempt, self.flight.lowest if known else 0,
            self.flight.following if known else 0, self.world, self.wish, self.record, self.name, self.token),
            rank=self.rank))
        self.joins += 1
        self.next_join, self.join_gap = now + self.join_gap, min(1, 2 * self.join_gap)

    def join_anew(self, now):
        self.state, self.join_gap = "joining", 0.1
        self.next_join = max(now, self.next_join)  # never less than 100 ms after the last one

    def take_joined(self, header, joined, now):
        if self.state != "joining" or joined.nonce != self.nonce or header.rank != wire.BOX:
            raise Dropped("nonce")
        if joined.status == 3:
            self.state, self.why = "closed", f"refused: {joined.text}"
        elif joined.status == 2:
            self.heard, self.missing, self.lease = now, joined.missing, joined.lease / 1000
        elif joined.status == 1:
            self.check_running(header, joined)
            self.enter(header, joined, now)
        else:
            raise Dropped("status")

    def check_running(self, header, joined):
        record = joined.record
        powers = (joined.window, record.largest_window, record.lookahead)
        good = (1 <= header.job <= 1024 and header.epoch and record.generation and joined.lease
                and all(p in [2**n for n in range(4, 15)] for p in powers)
                and max(joined.window, record.lookahead) <= record.largest_window
                and record.elements % 16 == 0 and 16 <= record.elements <= self.wish
                and joined.most_advanced < joined.world and 1 <= joined.shards <= 64 and 1 <= joined.discipline <= 4
                and (joined.discipline == 1 or joined.shared_slots >= joined.shards)
                and header.priority != 255 and joined.results in (1, 2))
        if not good:
            raise Dropped("joined")
        if joined.world != self.world:
            self.state, self.why = "closed", f"the job has {joined.world} workers"
            raise Dropped("world")
        if header.flags & wire.INCOMPLETE:
            self.state, self.why = "closed", "this client waits for everybody; the job does not"
            raise Dropped("incomplete")

    def enter(self, header, joined, now):
        if self.record not in (wire.NO_RECORD, joined.record):
            self.state, self.why = "closed", "new generation"
            return
        new_epoch = header.epoch != self.epoch
        self.state, self.heard, self.joined, self.record = "running", now, joined, joined.record
        self.job, self.epoch, self.box_cookie = header.job, header.epoch, header.cookie
        self.cookie, self.window, self.shards = joined.cookie, joined.window, joined.shards
        self.most_advanced, self.lease = joined.most_advanced, joined.lease / 1000
        self.missing, self.alive = 0, self.everybody()
        self.next_heartbeat = now + min(self.lease / 10, 1)
        self.epochs += new_epoch
        if self.flight is None:
            self.flight = Flight(self)
        elif new_epoch:
            self.flight.new_epoch()
        if joined.results == 2:
            self.link.join_group(joined.group, joined.group_port)
