#!/usr/bin/python3
"""The vectors of train.py as rows of a table on servers (tally.kv): one worker, as DMLC_* and TALLY_* say.

`run --table` beside this file starts a box, servers and workers on this machine.
"""
import argparse
import json
import pathlib
import sys
import time

try:
    import torch
except ImportError:
    sys.exit("train_table.py: this example is torch's; python3-torch is not installed (make deps-frameworks)")

import tally.kv
from embedding import Embedding, Sgd
from words import WIDTH, Pairs, losses_of, neighbours, read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", metavar="FILE", help="to learn from; default: the licences of Debian")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=512, help="pairs of each worker and step")
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--most-hot", type=int, default=30_000, help="rows that are hot at a time, at most; 0: all are cold")
    parser.add_argument("--every", type=int, default=64, help="steps from one choice of the hot rows to the next")
    parser.add_argument("--json", metavar="FILE", help="rank 0 writes losses, seconds and counters to it; all do if it has {rank}")
    options = parser.parse_args()
    torch.set_num_threads(1)
    text, words = read(options.text)

    with tally.kv.start():
        rank = tally.kv.rank()
        table = Embedding(WIDTH, options.rate, 0.5 / WIDTH, most_hot=options.most_hot, every=options.every)
        optimiser = Sgd(table)
        pairs, losses, took = Pairs(text, options.batch, rank), [], []
        for _ in range(options.steps):
            begun = time.monotonic()
            centre, beside, others = pairs.draw()
            # The vectors of words as centres, and behind them those as neighbours: one table, one round for each step.
            beside_and_others = torch.cat([beside[:, None], others], 1) + len(words)
            vectors = table(torch.cat([centre[:, None], beside_and_others], 1))
            loss = losses_of(vectors[:, 0], vectors[:, 1], vectors[:, 2:]).sum()
            loss.backward()
            optimiser.step()
            losses.append(loss.item() / options.batch)
            took.append(time.monotonic() - begun)
        said = {"losses": losses, "seconds": took, "table": table.table.statistics(), "traffic": tally.kv.statistics()}
        if rank == 0:
            with torch.no_grad():
                near = neighbours(table(torch.arange(len(words))), words, ("license", "copyright", "lord", "heart"))
            counted = said["table"]
            print(f"table, at most {options.most_hot:,} hot rows: loss {losses[0]:.4f} -> {sum(losses[-20:]) / len(losses[-20:]):.4f}, "
                  f"{2 * len(words):,} rows, {1e3 * sum(took) / len(took):.1f} ms a step, {counted['hot_pairs']:,} of "
                  f"{counted['hot_pairs'] + counted['cold_pairs']:,} pushed rows were hot; near to " +
                  "; ".join(f"{word}: {' '.join(others)}" for word, others in near.items()), flush=True)
        table.close()
    if options.json and (rank == 0 or "{rank}" in options.json):
        pathlib.Path(options.json.replace("{rank}", str(rank))).write_text(json.dumps(said))


if __name__ == "__main__":
    main()
