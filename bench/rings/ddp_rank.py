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


def drawn(rank):
    """Another batch at each rank: their gradients are the same only if somebody has summed."""
    return torch.rand(BATCH, WIDTH, generator=torch.Generator().manual_seed(rank + 1))


class Elsewhere(torch.autograd.Function):
    """What a layer computes on a GPU takes time and no CPU, of which ranks, box and links have two here."""
    seconds = 0.0  # of one layer and step

    @staticmethod
    def forward(_context, values):  # pylint: disable=arguments-differ
        time.sleep(Elsewhere.seconds / 3)
        return values.clone()

    @staticmethod
    def backward(_context, values):  # pylint: disable=arguments-differ
        time.sleep(Elsewhere.seconds * 2 / 3)
        return values


class Layer(torch.nn.Linear):
    def forward(self, values):  # pylint: disable=arguments-renamed
        return super().forward(Elsewhere.apply(values) if Elsewhere.seconds else values)


def same_everywhere(value):
    """Rank 0's."""
    of_all = torch.tensor([float(value)])
    dist.broadcast(of_all, 0)
    return of_all.item()


class Steps:
    """Of one model, by one way."""

    def __init__(self, hook=None, state=None):
        self.model = DistributedDataParallel(torch.nn.Sequential(*[Layer(WIDTH, WIDTH) for _ in range(LAYERS)]),
                                             bucket_cap_mb=BUCKET_MB)
        if hook:
            self.model.register_comm_hook(state, lambda of, bucket: hook(of, bucket))  # torch asks a hook for its name

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

    def wrong(self, batch, world):
        """Parameters whose gradients are not this rank's everywhere, or not gloo's mean but for what the wire may round."""
        self.model.zero_grad()
        self.one(batch)
        ours = [p.grad.clone() for p in self.model.parameters()]
        self.model.zero_grad()
        with self.model.no_sync():
            self.one(batch)
        count = 0
        for own, mean in zip(self.model.parameters(), ours):
            dist.all_reduce(own.grad)
            most = mean.clone()
            dist.all_reduce(most, dist.ReduceOp.MAX)
            off = (own.grad / world - mean).abs().max() > 2e-3 * mean.abs().max()
            count += int(bool(off) or not torch.equal(most, mean))
        return count


class Timed:
    """The hook, with the time that it takes of the backward pass's thread, and that between a sum's end and the Future's."""

    def __init__(self, hook, state):
        self.hook, self.buckets, self.calls, self.ends = hook, {}, [], []
        self.reduce, state.route.reduce = state.route.reduce, self.keep_operation
        self.operation = None

    def keep_operation(self, tensors, **how):
        self.operation, first = self.reduce(tensors, **how)
        return self.operation, first

    def __call__(self, state, bucket):
        self.buckets[bucket.index()] = bucket.buffer().numel()
        begun = time.monotonic()
        future = self.hook(state, bucket)
        called = time.monotonic()
        self.calls.append(called - begun)
        operation = self.operation

        def ended(of):
            self.ends.append(time.monotonic() - called - operation.wait()["seconds"])
            return of.value()
        return future.then(ended)


def sums_alone(state, sizes, wire):
    """The median time of all buckets' sums, asked for at once."""
    buckets = [torch.rand(size) for size in sizes]  # not zeros, which a box need not send
    times = []
    for _ in range(5):
        dist.barrier()
        begun = time.monotonic()
        for operation in [state.worker.allreduce_async(bucket, mean=True, wire=wire) for bucket in buckets]:
            operation.wait()
        times.append(time.monotonic() - begun)
    return statistics.median(times)


def costs(hook, state, way, steps, rank):
    """What the hook costs, in us for each bucket; and the share of the sums that is hidden by a backward pass which is long
    enough and leaves the CPUs alone."""
    timed = Timed(hook, state)
    run, given = Steps(timed, state), drawn(rank)
    run.together(given, steps)
    del state.route.reduce  # the instance's: the class has its own
    sums = sums_alone(state, timed.buckets.values(), way)
    untimed = Steps(hook, state)
    Elsewhere.seconds = same_everywhere(LONG * sums / LAYERS)
    alone = untimed.alone(given)
    step = statistics.median(untimed.together(given, steps))
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
    given = drawn(rank)
    said = {"alone": run.alone(given), "seconds": run.together(given, int(steps)), "wrong": run.wrong(given, world),
            "bytes": 4 * sum(p.numel() for p in run.model.parameters())}
    if state:
        said.update(costs(hook, state, way, int(steps), rank))
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
