"""An embedding whose rows are on servers of keys and values, for tables that no rank can hold, and its optimiser:

    with tally.kv.start():
        table = Embedding(64, rate=0.05, spread=0.01)
        optimiser = Sgd(table)
        for ids, target in batches:
            loss_of(model(table(ids)), target).backward()
            optimiser.step()                             # the rows that the batch touched; the mean over all workers
        table.close()
"""
import numpy
import torch

import tally.kv

GOLDEN = numpy.uint64(0x9E3779B97F4A7C15)  # odd: another key for each id, and neighbours far apart, on all servers


def first_values(keys, width, spread):
    """Where rows begin: uniform in -spread..spread, by the key alone, so that nobody has to push it."""
    drawn = keys[:, None] + GOLDEN * numpy.arange(1, width + 1, dtype=numpy.uint64)  # SplitMix64
    drawn = (drawn ^ (drawn >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    drawn = (drawn ^ (drawn >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return ((drawn >> numpy.uint64(40)) * (spread / 2**23) - spread).astype(numpy.float32)


class Embedding(torch.nn.Module):
    """table: options of tally.kv.Table. A row is what it began with and what the servers have."""

    def __init__(self, width, rate, spread=0.0, **table):
        super().__init__()
        self.width, self.spread = width, spread
        self.table = tally.kv.Table(width, "sgd", rate, **table)
        self.looked_up = []  # (keys, rows) since the last step

    def forward(self, ids):
        keys, places = numpy.unique(ids.numpy().astype(numpy.uint64) * GOLDEN, return_inverse=True)
        rows = torch.from_numpy(self.table.pull(keys) + first_values(keys, self.width, self.spread))
        if torch.is_grad_enabled():
            self.looked_up.append((keys, rows.requires_grad_()))
        return torch.nn.functional.embedding(torch.from_numpy(places).view(ids.shape), rows)

    def close(self):
        self.table.close()


class Sgd:
    """Pushes gradients; the rate is the table's. All workers step equally often."""

    def __init__(self, *embeddings):
        self.embeddings = embeddings

    def step(self):
        for each in self.embeddings:
            looked_up, each.looked_up = [(keys, rows.grad) for keys, rows in each.looked_up if rows.grad is not None], []
            keys, places = numpy.unique(numpy.concatenate([numpy.empty(0, numpy.uint64), *(keys for keys, _ in looked_up)]),
                                        return_inverse=True)
            gradients = torch.zeros(len(keys), each.width)
            gradients.index_add_(0, torch.from_numpy(places), torch.cat([gradients[:0], *(grad for _, grad in looked_up)]))
            each.table.push(keys, gradients.div_(tally.kv.num_workers()))
