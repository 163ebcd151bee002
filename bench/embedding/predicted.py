"""What a round of skip-gram's table takes on links, reckoned from the batches of a text (docs/hot_keys.md): every byte of every
frame, of TCP with its headers, of the sums with theirs. Nothing is fitted: not in it are CPUs, queues, acknowledgements."""
import itertools
import math
import pathlib
import statistics
import sys

import numpy
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "skipgram"))
# pylint: disable=wrong-import-position
from words import WIDTH, Pairs, read  # noqa: E402

GOLDEN = numpy.uint64(0x9E3779B97F4A7C15)  # as embedding.py spreads ids over keys
SEGMENT, TCP = 1448, 14 + 20 + 32        # bytes of a message in a frame; Ethernet, IPv4, TCP with time stamps
MESSAGE = 64 + 64 + 8                    # of a table to a server and back (host/kv/frame.h, table_message.h)
HEADER, ROW = 14 + 28 + 56, 64           # of a sum's packet; a row there is 16 values
IN_PACKET = 22                           # such rows, at an MTU of 1500
OF_RUN = 64                              # packets whose exponents are in one, a byte each (docs/protocol_sparse.md)
OF_TABLE = 4 * WIDTH // ROW              # ... of one of the table's
WORDS = 16                               # bytes of an agreement for each hot row (docs/hot_keys.md)
LEAD = 2                                 # rounds from an agreement to its set


def tcp(rows, of_row):
    """Of a message, headers and all."""
    size = MESSAGE + rows * of_row
    return size + TCP * numpy.ceil(size / SEGMENT)


def sums(places, rows):
    """Of the hot rows at these places of a block of so many, one way: exponents first, in runs, then values."""
    if rows == 0:
        return 0.0
    packets = math.ceil(rows * OF_TABLE / IN_PACKET)
    exponents = HEADER * math.ceil(packets / OF_RUN) + packets
    at = (numpy.asarray(places, int)[:, None] * OF_TABLE + numpy.arange(OF_TABLE)).ravel() // IN_PACKET
    there = numpy.bincount(at)
    full = there[there > 0]
    values = numpy.where(full == IN_PACKET, HEADER + ROW * IN_PACKET, HEADER + ROW * full + 8).sum()
    return float(values) + exponents


def summed(cold, hot, down):
    """Bytes' time until a worker has the sums, of `down`, to which it brings `hot` beside what it pushes to each server, `cold`: on its link
    up all that still have something have equal shares, and what has not come up cannot go down."""
    if hot == 0:
        return max(sum(cold), down)
    sizes, each, time, here = sorted([*cold, hot]), 0.0, 0.0, 0.0
    for number, size in enumerate(sizes):
        step = (size - each) * (len(sizes) - number)
        each, time = size, time + step
        here = min(down * each / hot, here + step)
        if each >= hot:
            break
    return max(time + down - here, sum(sizes))


def batches(text, words, batch, workers, rounds):
    """Of each round each worker's ids, each once, as train_table.py looks them up."""
    pairs = [Pairs(text, batch, rank) for rank in range(workers)]
    for _ in range(rounds):
        drawn = [of.draw() for of in pairs]
        yield [torch.cat([centre, beside + len(words), others.flatten() + len(words)]).unique().numpy()
               for centre, beside, others in drawn]


class Trace:
    def __init__(self, text, batch, workers, servers, rounds):
        tokens, words = read(text)
        self.workers, self.servers, self.keys = workers, servers, 2 * len(words)
        self.rounds = list(batches(tokens, words, batch, workers, rounds))
        keys = numpy.arange(self.keys, dtype=numpy.uint64) * GOLDEN
        self.server = numpy.minimum(keys // numpy.uint64((2**64 - 1) // servers), servers - 1).astype(int)

    def rows(self):
        """That a worker's batch has, on average."""
        return statistics.mean(len(ids) for ids in itertools.chain(*self.rounds))

    def best(self, before, most_hot):
        """Rows of the greatest merge gain in the rounds before."""
        shares = numpy.zeros((self.workers, self.keys))
        for of_round in self.rounds[:before]:
            for rank, ids in enumerate(of_round):
                shares[rank, ids] += 1 / before
        gain = shares.sum(0) - (1 - (1 - shares).prod(0))
        best = numpy.argsort(-gain, kind="stable")[:most_hot]
        return best[gain[best] > 0]

    def agreed_by(self, this, every):
        """Rounds that had ended when the set of this one was agreed on: after every / 8, / 4, / 2, and then each `every`."""
        ends = [every // 8, every // 4, every // 2, *range(every, len(self.rounds), every)]
        return max((end for end in ends if end + LEAD <= this), default=0)

    def bytes_of(self, most_hot, every, first):
        """Of the rounds from the first on, on average: through the link that has most to carry, in each phase of a round. And the
        share of rows that are hot."""
        found, shares, agreed, place, size = [], [], None, None, 0
        for this in range(first, len(self.rounds)):
            before = self.agreed_by(this, every) if most_hot else 0
            if before != agreed:
                agreed, place = before, numpy.full(self.keys, -1)
                best = self.best(before, most_hot) if before else []
                size = len(best)
                place[best] = numpy.arange(size)
            of_round = self.rounds[this]
            cold = numpy.array([numpy.bincount(self.server[ids[place[ids] < 0]], minlength=self.servers) for ids in of_round])
            hot = [place[ids][place[ids] >= 0] for ids in of_round]
            shares.append(sum(map(len, hot)) / sum(map(len, of_round)))
            asked, pulled, pushed = tcp(cold, 8), tcp(cold, 4 * WIDTH), tcp(cold, 8 + 4 * WIDTH)
            down = sums(numpy.unique(numpy.concatenate(hot)), size)
            pull = asked.sum(1).min() + max(pulled.sum(0).max(), pulled.sum(1).max())
            push = max(summed(mine, sums(places, size), down) for mine, places in zip(pushed, hot))
            found.append(pull + max(pushed.sum(0).max(), push) + (WORDS * most_hot / every if most_hot else 0))
        return statistics.mean(found), statistics.mean(shares)
