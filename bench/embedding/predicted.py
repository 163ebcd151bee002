"""What hot keys are worth on links, reckoned from the batches of a text (docs/hot_keys.md): a cold pair of 64 values is 8 + 256
bytes, pulled and pushed at its server; a hot one 4.2 bytes a value, up from who has it and down to everybody."""
import itertools
import pathlib
import statistics
import sys

import numpy
import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "skipgram"))
# pylint: disable=wrong-import-position
from words import WIDTH, Pairs, read  # noqa: E402

GOLDEN = numpy.uint64(0x9E3779B97F4A7C15)  # as embedding.py spreads ids over keys
COLD, HOT = 8 + 4 * WIDTH, 4.2 * WIDTH     # bytes of a row


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
        shares = numpy.zeros((workers, self.keys))
        for of_round in self.rounds:
            for rank, ids in enumerate(of_round):
                shares[rank, ids] += 1 / rounds
        gain = shares.sum(0) - (1 - (1 - shares).prod(0))  # the merge gain
        self.best = numpy.argsort(-gain, kind="stable")
        keys = numpy.arange(self.keys, dtype=numpy.uint64) * GOLDEN
        self.server = numpy.minimum(keys // numpy.uint64((2**64 - 1) // servers), servers - 1).astype(int)

    def rows(self):
        """That a worker's batch has, on average."""
        return statistics.mean(len(ids) for ids in itertools.chain(*self.rounds))

    def bytes_of(self, most_hot):
        """Through the link that has most to carry, both phases of a round together, on average."""
        hot = numpy.zeros(self.keys, bool)
        hot[self.best[:most_hot]] = True
        sums = []
        for of_round in self.rounds:
            cold_of = [numpy.bincount(self.server[ids[~hot[ids]]], minlength=self.servers) for ids in of_round]
            at_server = COLD * sum(cold_of).max()
            mine = COLD * max(of.sum() for of in cold_of)
            up = max(COLD * of.sum() + HOT * hot[ids].sum() for of, ids in zip(cold_of, of_round))
            down = HOT * hot[numpy.unique(numpy.concatenate(of_round))].sum()
            sums.append(max(at_server, mine) + max(at_server, up, down))
        return statistics.mean(sums)
