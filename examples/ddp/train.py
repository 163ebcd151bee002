#!/usr/bin/python3
"""A CNN on Fashion-MNIST by DistributedDataParallel: the script of one rank, as torchrun starts it.

    torchrun --nproc_per_node 2 train.py --sums box      gradients through a Tally box (TALLY_SWITCH, TALLY_JOB)
    torchrun --nproc_per_node 2 train.py --sums gloo     the same without one

The two ways differ in the lines that are marked. `run` beside this file starts a box and both ways on this machine.
"""
import argparse
import gzip
import json
import os
import pathlib
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")  # Debian's package dataset-fashion-mnist


def load(kind):
    """Pictures of [0, 1] and what they show."""
    with gzip.open(DATA / f"{kind}-images-idx3-ubyte.gz") as file:
        pictures = numpy.frombuffer(file.read(), numpy.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(DATA / f"{kind}-labels-idx1-ubyte.gz") as file:
        labels = numpy.frombuffer(file.read(), numpy.uint8, offset=8)
    return torch.from_numpy(pictures.astype(numpy.float32) / 255), torch.from_numpy(labels.astype(numpy.int64))


def make_model(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(32 * 7 * 7, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))


def compressed(hook, by):
    """Torch's own wrappers around any hook. It refuses that of bfloat16, by its name, where there is no NCCL."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
    wrappers = {"float16": default_hooks.fp16_compress_wrapper, "bfloat16": default_hooks.bf16_compress_wrapper}
    if not by:
        return hook
    wrapped = wrappers[by](hook)
    return lambda state, bucket: wrapped(state, bucket)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sums", choices=("box", "gloo"), default="box")
    parser.add_argument("--wire", default="shortest", help="of the box: shortest, int16, int32 or exact")
    parser.add_argument("--compress", choices=("float16", "bfloat16"), help="gradients, by torch, before the box's hook")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=64, help="pictures of each rank and step")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judged", type=int, default=10000, help="pictures that the accuracy is of")
    parser.add_argument("--json", metavar="FILE", help="rank 0 writes losses, times and accuracy to it")
    options = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    model = DistributedDataParallel(make_model(options.seed))
    if options.sums == "box":                                                                   # this
        import tally.torch                                                                      # and this
        hook = compressed(tally.torch.hook, options.compress)
        model.register_comm_hook(tally.torch.State(wire=options.wire), hook)                    # and this

    pictures, labels = load("train")
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(options.seed))
    optimiser = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    losses, begun = [], time.monotonic()
    for step in range(options.steps):
        first = (step * world + rank) * options.batch % (len(order) - options.batch)
        chosen = order[first:first + options.batch]
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pictures[chosen]), labels[chosen])
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    took = time.monotonic() - begun

    if rank == 0:
        pictures, labels = (all_of[:options.judged] for all_of in load("t10k"))
        with torch.no_grad():
            right = sum(int((model.module(some).argmax(1) == kinds).sum())
                        for some, kinds in zip(pictures.split(500), labels.split(500)))
        said = {"losses": losses, "seconds": took, "accuracy": right / len(labels)}
        print(f"{options.sums}: loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {said['accuracy']:.4f}, "
              f"{1e3 * took / options.steps:.1f} ms a step")
        if options.sums == "box":
            print(tally.torch.report())
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(said))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
