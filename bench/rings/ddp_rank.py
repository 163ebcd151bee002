"""A rank of DistributedDataParallel whose steps are timed: `gloo`, or the hook of tally.torch with a wire type.

   ddp_rank.py WAY STEPS STORE FILE: WAY is gloo, or the wire of the box. Rank 0 writes what it measured to FILE.

Of the box's ways also what the hook costs for each bucket, and how much of its sums a backward pass hides that is long
enough.
"""
import json
import os
import pathlib
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

LAYERS, WIDTH = 10, 512  # 10.5 MB of gradients
BATCH = 16
BUCKET_MB = 2
WARM_UP = 3  # DDP makes its buckets anew after the first step
LONG = 2     # times as long as the sums takes a step that is to hide them: two thirds of it are the backward pass


def same_everywhere(value):
    """Rank 0's."""
    of_all = torch.tensor([float(value)])
    dist.broadcast(of_all, 0)
    return of_all.item()


class Steps:
    """Of one model, by one way."""

    def __init__(self, hook=None, state=None):
        self.model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]),
                                             bucket_cap_mb=BUCKET_MB)
        if hook:
            self.model.register_comm_hook(state, hook)

    def one(self, batch):
        begun = time.monotonic()
        self.model(batch).square().mean().backward()
        return time.monotonic() - begun

    def alone(self, batch):
        """The median of steps without their sums."""
        with self.model.no_sync():
            took = statistics.median(self.one(batch) for _ in range(5))
        for parameter in self.model.parameters():
            parameter.grad = None
        dist.barrier()
        return took

    def together(self, batch, steps):
        return [self.one(batch) for _ in range(WARM_UP + steps)][WARM_UP:]

    def apart(self, world):
        """Ranks whose gradients are not this one's."""
        mine = sum(p.grad.double().sum() for p in self.model.parameters()).float().reshape(1)
        same = [torch.zeros(1) for _ in range(world)]
        dist.all_gather(same, mine)
        return sum(int(not torch.equal(one, mine)) for one in same)


class Timed:
    """The hook, with the time that it takes of the backward pass's thread, and that between a sum's end and the Future's."""

    def __init__(self, hook, state):
        self.hook, self.buckets, self.calls, self.ends = hook, {}, [], []
        self.reduce, state.route.reduce = state.route.reduce, self.timed_reduce

    def timed_reduce(self, tensors, **how):
        operation, first = self.reduce(tensors, **how)
        done = []
        operation.add_done_callback(lambda _: done.append(time.monotonic()))

        def at_the_end():
            self.ends.append(time.monotonic() - done[0])
            first()
        return operation, at_the_end

    def __call__(self, state, bucket):
        self.buckets[bucket.index()] = bucket.buffer().numel()
        begun = time.monotonic()
        future = self.hook(state, bucket)
        self.calls.append(time.monotonic() - begun)
        return future


def sums_alone(state, sizes, wire):
    """The median time of all buckets' sums, asked for at once."""
    buckets = [torch.zeros(size) for size in sizes]
    times = []
    for _ in range(5):
        dist.barrier()
        begun = time.monotonic()
        for operation in [state.worker.allreduce_async(bucket, mean=True, wire=wire) for bucket in buckets]:
            operation.wait()
        times.append(time.monotonic() - begun)
    return statistics.median(times)


def costs(hook, state, way, steps, given):
    """What the hook costs, in us for each bucket; and the share of the sums that a long backward pass hides."""
    timed = Timed(hook, state)
    run = Steps(timed, state)
    run.together(given, steps)
    del state.route.reduce  # the instance's: the class has its own
    sums = sums_alone(state, timed.buckets.values(), way)
    batch = torch.rand(int(same_everywhere(BATCH * max(1, LONG * sums / run.alone(given)))), WIDTH)
    alone = run.alone(batch)
    step = statistics.median(run.together(batch, steps))
    return {"call_us": 1e6 * statistics.median(timed.calls), "end_us": 1e6 * statistics.median(timed.ends),
            "sums": sums, "long_alone": alone, "hidden": 1 - (step - alone) / sums}


def main():
    way, steps, store, file = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, world = int(os.environ["TALLY_RANK"]), int(os.environ["TALLY_WORLD"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    hook = state = None
    if way != "gloo":
        import tally.torch
        hook, state = tally.torch.hook, tally.torch.State(fallback="never", wire=way)
    run = Steps(hook, state)
    given = torch.rand(BATCH, WIDTH)
    said = {"alone": run.alone(given), "seconds": run.together(given, int(steps)), "wrong": run.apart(world),
            "bytes": 4 * sum(p.numel() for p in run.model.parameters())}
    if state:
        said.update(costs(hook, state, way, int(steps), given))
    if rank == 0:
        pathlib.Path(file).write_text(json.dumps(said))
    if state:
        state.worker.leave()
    dist.barrier()
    # Without torch's destructors: that of gloo's group waits, holding the GIL, for a thread that may want it to let go of
    # a tensor (torch 1.13), so that one of some twenty such programs does not end.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
