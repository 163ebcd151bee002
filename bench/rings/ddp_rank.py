"""A rank of DistributedDataParallel whose steps are timed: `gloo`, or the hook of tally.torch with a wire type.

   ddp_rank.py WAY STEPS STORE FILE: WAY is gloo, or the wire of the box. Rank 0 writes what it measured to FILE.
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


def main():
    way, steps, store, file = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    rank, world = int(os.environ["TALLY_RANK"]), int(os.environ["TALLY_WORLD"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    model = DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]),
                                    bucket_cap_mb=BUCKET_MB)
    if way != "gloo":
        import tally.torch
        state = tally.torch.State(fallback="never", wire=way)
        model.register_comm_hook(state, tally.torch.hook)
    given = torch.rand(BATCH, WIDTH)

    def step():
        begun = time.monotonic()
        model(given).square().mean().backward()
        return time.monotonic() - begun
    with model.no_sync():
        alone = statistics.median(step() for _ in range(5))
    for parameter in model.parameters():
        parameter.grad = None
    dist.barrier()
    times = [step() for _ in range(WARM_UP + int(steps))][WARM_UP:]
    same = [torch.zeros(1) for _ in range(world)]
    dist.all_gather(same, sum(p.grad.double().sum() for p in model.parameters()).float().reshape(1))
    if rank == 0:
        pathlib.Path(file).write_text(json.dumps({
            "seconds": times, "alone": alone, "wrong": sum(int(not torch.equal(one, same[0])) for one in same),
            "bytes": 4 * sum(p.numel() for p in model.parameters())}))
    if way != "gloo":
        state.worker.leave()
    dist.barrier()
    # Without torch's destructors: that of gloo's group waits, holding the GIL, for a thread that may want it to let go of
    # a tensor (torch 1.13), so that one of some twenty such programs does not end.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
