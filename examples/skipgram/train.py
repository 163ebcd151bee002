#!/usr/bin/python3
"""Word vectors by skip-grams with negative samples (Mikolov et al. 2013), of the licences that every Debian has: one rank.

    torchrun --nproc_per_node 2 train.py --backend tally    all of torch.distributed through a box, or by gloo
    torchrun --nproc_per_node 2 train.py --backend gloo

No DistributedDataParallel here: the script sums its gradients itself, as scripts did before there was one. `run` beside this
file starts a box and both backends on this machine.
"""
import argparse
import collections
import json
import pathlib
import re
import time

import torch
import torch.distributed as dist

TEXTS = pathlib.Path("/usr/share/common-licenses")
LEAST, WINDOW, NEGATIVES, WIDTH = 5, 4, 8, 64


def read():
    """The texts as numbers of words, the most frequent word first; the words."""
    text = " ".join(path.read_text(errors="replace") for path in sorted(TEXTS.iterdir()) if not path.is_symlink())
    spoken = re.findall(r"[a-z]{2,}", text.lower())
    words = [word for word, times in sorted(collections.Counter(spoken).items(), key=lambda one: (-one[1], one[0])) if times >= LEAST]
    number = {word: i for i, word in enumerate(words)}
    return torch.tensor([number[word] for word in spoken if word in number]), words


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
    often = torch.bincount(text).float().pow(0.75)
    vectors = [torch.empty(len(words), WIDTH).uniform_(-0.5 / WIDTH, 0.5 / WIDTH).requires_grad_(),
               torch.zeros(len(words), WIDTH, requires_grad=True)]
    optimiser = torch.optim.Adam(vectors, lr=0.003)
    chance = torch.Generator().manual_seed(rank + 1)
    losses, begun = [], time.monotonic()
    for _ in range(options.steps):
        places = torch.randint(WINDOW, len(text) - WINDOW, (options.batch,), generator=chance)
        aside = torch.randint(1, WINDOW + 1, (options.batch,), generator=chance)
        aside *= torch.randint(2, (options.batch,), generator=chance) * 2 - 1
        centre, beside = text[places], text[places + aside]
        others = torch.multinomial(often, options.batch * NEGATIVES, replacement=True, generator=chance).view(-1, NEGATIVES)
        of_centre = vectors[0][centre]
        near = (of_centre * vectors[1][beside]).sum(1)
        far = torch.einsum("bw,bnw->bn", of_centre, vectors[1][others])
        loss = -(torch.nn.functional.logsigmoid(near) + torch.nn.functional.logsigmoid(-far).sum(1)).mean()
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
            unit = torch.nn.functional.normalize(vectors[0])
            near = {word: [words[i] for i in (unit @ unit[words.index(word)]).topk(4).indices.tolist()[1:]]
                    for word in ("license", "copyright", "warranty", "source")}
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
