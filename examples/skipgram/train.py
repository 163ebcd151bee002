#!/usr/bin/python3
"""Word vectors by skip-grams with negative samples (Mikolov et al. 2013), of the licences that every Debian has: one rank.

    torchrun --nproc_per_node 2 train.py --backend tally    all of torch.distributed through a box, or by gloo
    torchrun --nproc_per_node 2 train.py --backend gloo

No DistributedDataParallel here: the script sums its gradients itself, as scripts did before there was one. `run` beside this
file starts a box and both backends on this machine.
"""
import argparse
import json
import pathlib
import time

import torch
import torch.distributed as dist

from words import WIDTH, Pairs, losses_of, neighbours, read


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("tally", "gloo"), default="tally")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch", type=int, default=512, help="pairs of each rank and step")
    parser.add_argument("--json", metavar="FILE", help="rank 0 writes losses, times and neighbours to it")
    options = parser.parse_args()

    if options.backend == "tally":
        import tally.torch  # makes the backend known
    dist.init_process_group(options.backend)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    text, words = read()
    vectors = [torch.empty(len(words), WIDTH).uniform_(-0.5 / WIDTH, 0.5 / WIDTH).requires_grad_(),
               torch.zeros(len(words), WIDTH, requires_grad=True)]
    optimiser = torch.optim.Adam(vectors, lr=0.003)
    pairs = Pairs(text, options.batch, rank)
    losses, begun = [], time.monotonic()
    for _ in range(options.steps):
        centre, beside, others = pairs.draw()
        loss = losses_of(vectors[0][centre], vectors[1][beside], vectors[1][others]).mean()
        optimiser.zero_grad()
        loss.backward()
        sums = [dist.all_reduce(vector.grad, async_op=True) for vector in vectors]
        for one, vector in zip(sums, vectors):
            one.wait()
            vector.grad.div_(world)
        optimiser.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        losses.append(mean.item() / world)
    took = time.monotonic() - begun

    if rank == 0:
        with torch.no_grad():
            near = neighbours(vectors[0], words, ("license", "copyright", "warranty", "source"))
        print(f"{options.backend}: loss {losses[0]:.4f} -> {sum(losses[-20:]) / len(losses[-20:]):.4f}, {len(words)} words, "
              f"{1e3 * took / options.steps:.1f} ms a step; near to " +
              "; ".join(f"{word}: {' '.join(others)}" for word, others in near.items()))
        if options.backend == "tally":
            print(tally.torch.report())
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps({"losses": losses, "seconds": took, "near": near}))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
