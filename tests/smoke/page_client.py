#!/usr/bin/python3
"""A worker written from docs/protocol.md alone. Says what it does in the JSON lines of tally_test_worker, and makes
the values that one makes, so that both can be ranks of one job. Exit codes: likewise (test_worker.cc)."""
import argparse
import json
import sys
import time

import client_wire as wire
from client_frames import FrameLink
from client_link import SocketLink
from client_member import Closed, Member, NewGeneration
from client_operation import as_bytes, to_float32

SCALES = (-10, -13, -7, -12, -9)


class Values:
    """Element i of a rank: those of worker_values.h, whose sums are exact in float32."""

    def __init__(self, seed, iteration, dtype):
        self.key, self.dtype = wire.mix64(wire.mix64(seed + 1) + iteration), dtype

    def one(self, rank, i):
        word = wire.signed(wire.mix64(wire.mix64(self.key + rank) + i) >> 48 << 16) >> 16
        return word * 2.0**SCALES[i // 100 % 5] if self.dtype else word * 1021

    def array(self, first, size, rank):
        return [self.one(rank, i) for i in range(first, first + size)]

    def wrong(self, sums, first, world):
        """How many of the sums are not what they must be."""
        right = (sum(self.one(rank, i) for rank in range(world)) for i in range(first, first + len(sums)))
        return sum(got != (to_float32(want) if self.dtype else want) for got, want in zip(sums, right))


class Speaker:
    def __init__(self, rank):
        self.rank = rank

    def say(self, event, **words):
        line = {"event": event, "rank": self.rank, "ms": time.monotonic_ns() // 1000000, **words}
        print(json.dumps(line), flush=True)


def iterate(member, options, n, speaker):
    dtype = int(options.dtype != "int32")
    values, first, arrays, firsts = Values(options.seed, n, dtype), 0, [], []
    for size in map(int, options.sizes.split(",")):
        arrays.append(values.array(first, size, options.rank))
        firsts.append(first)
        first += size
    sums = member.allreduce_all(arrays, dtype, True if options.dtype == "exact" else None)
    wrong = sum(values.wrong(one, at, options.world) for one, at in zip(sums, firsts))
    speaker.say("iteration", n=n, crc=[wire.crc32c(as_bytes(one, dtype)) for one in sums], wrong=wrong)
    return 3 if wrong else 0


def live(options, speaker):
    link = (FrameLink(options.frames, options.box, options.source, vlan=options.vlan) if options.frames
            else SocketLink(options.box, options.source, options.interface))
    member = Member(link, options.job, options.rank, options.world, options.token, options.elements)
    try:
        member.join()
        record = member.record
        speaker.say("joined", world=member.world, elements=record.elements, window=member.window, shards=member.shards,
                    generation=record.generation, epoch=member.epoch, lease=int(1000 * member.lease),
                    multicast=int(member.joined.results == 2), first_chunk=record.first_chunk)
        outcome = 0
        for n in range(options.iterations):
            if n:
                member.rest(options.gap / 1000)
            outcome = outcome or iterate(member, options, n, speaker)
        if options.ending == "leave":
            member.leave()
        elif options.ending == "abort":
            member.abort("the client was told to")
    except (Closed, NewGeneration, TimeoutError) as reason:
        member.abort(str(reason))
        code = "timeout" if isinstance(reason, TimeoutError) else "refused" if "refused" in str(reason) else "aborted"
        speaker.say("error", at="iteration" if member.epochs else "join", code=code, text=str(reason))
        outcome = 1
    counts = member.flight.counts if member.flight else {}
    words = "contributions", "retransmissions", "queries", "questions", "answers", "results"
    speaker.say("statistics", **{word: counts.get(word, 0) for word in words}, joins=member.joins,
                epochs=member.epochs, echoes=member.echoes, hints=member.hints, grouped=link.grouped,
                dropped=dict(member.dropped), refused=sum(member.dropped.values()))
    return outcome


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--box", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--token", default="")
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    parser.add_argument("--elements", type=int, default=352)
    parser.add_argument("--sizes", default="1000", help="one operation each")
    parser.add_argument("--dtype", choices=("int32", "float32", "exact"), default="float32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--gap", type=int, default=0, help="milliseconds between iterations")
    parser.add_argument("--ending", choices=("leave", "abort", "vanish"), default="leave")
    parser.add_argument("--source", default="", help="own address")
    parser.add_argument("--interface", default="", help="for multicast results")
    parser.add_argument("--frames", default="", metavar="INTERFACE", help="frames made by hand instead of sockets")
    parser.add_argument("--vlan", type=int)
    options = parser.parse_args()
    speaker = Speaker(options.rank)
    speaker.say("started")
    return live(options, speaker)


if __name__ == "__main__":
    sys.exit(main())
