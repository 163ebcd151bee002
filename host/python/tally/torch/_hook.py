"""The communication hook of DistributedDataParallel."""
import os

import torch.distributed as dist

from tally.torch._route import Route, future_of, group_job

_URGENT = 3  # the class of the last bucket, which holds the layers that the next forward pass begins with


class State:
    """What hook() needs: a Worker of the job, joined here by all ranks of the process group.

    job: instead of TALLY_JOB; of a process group other than the default one, a group of that job. fallback: 'warn' once for
    each reason, 'silent', or 'never': what does not go through the box is an error. min_bytes: smaller buckets go by the
    ring. wire: as Worker.allreduce_async(); 'int16' sends half the bytes, and rounds. urgent_last: the last bucket of a
    backward pass has the most urgent class. probe: MiB that are summed both ways first (TALLY_PROBE; 0, not at all); a ring
    that is faster is taken. Counters: operations, bytes, fallbacks (by reason)."""

    def __init__(self, process_group=None, job=None, *, fallback="warn", min_bytes=0, wire="shortest",
                 urgent_last=True, probe=None):
        self.group = process_group if process_group is not None else dist.group.WORLD
        if self.group is None:
            raise RuntimeError("tally.torch.State: call torch.distributed.init_process_group() first")
        self.wire, self.urgent_last = wire, urgent_last
        self.world = dist.get_world_size(self.group)
        job = job or os.environ.get("TALLY_JOB")
        if self.group is not dist.group.WORLD and job:
            job = group_job(job, [dist.distributed_c10d.get_global_rank(self.group, r) for r in range(self.world)])
        # Behind the backend 'tally' is a gloo that can agree on it without being counted.
        self.route = Route(getattr(self.group, "inner", self.group), name="tally.torch.hook", job=job, rank=dist.get_rank(self.group),
                           world=self.world, fallback=fallback, min_bytes=min_bytes, probe=probe, wire=wire,
                           device="cuda" if dist.get_backend(self.group) == "nccl" else "cpu")

    operations = property(lambda self: self.route.operations)
    bytes = property(lambda self: self.route.bytes)
    fallbacks = property(lambda self: dict(self.route.fallbacks))
    worker = property(lambda self: self.route.worker)


def hook(state, bucket):
    """A Future of the bucket's mean over the ranks, for register_comm_hook()."""
    tensor = bucket.buffer()
    reason = state.route.why_not(tensor)
    if not reason:
        last = state.urgent_last and bucket.is_last()
        operation, first = state.route.reduce([tensor], mean=True, wire=state.wire,
                                              priority=_URGENT if last else None)
        return future_of(operation, tensor, first, partial=True)
    state.route.pass_on(reason, tensor.numel() * tensor.element_size())
    tensor.div_(state.world)
    work = dist.all_reduce(tensor, group=state.group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])
