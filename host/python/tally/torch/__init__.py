"""PyTorch's gradients through a Tally box: a hook for DistributedDataParallel, and a backend for torch.distributed.

    import tally.torch
    model = DistributedDataParallel(model)                           # over gloo, as before
    model.register_comm_hook(tally.torch.State(), tally.torch.hook)  # its buckets go through the box

    dist.init_process_group("tally")                                 # or all that the box can do, the rest by gloo

What a box does not sum (float64, say, or what lies on another device) goes by gloo, decided by type, device and size
alone and so the same at all ranks; each reason is said once. Where a box cannot be joined, everything does. TALLY_REQUIRE=1
makes either an error, TALLY_DISABLE=1 asks no box. report() says what went which way.
"""
from tally.torch._backend import ProcessGroup
from tally.torch._hook import State, hook
from tally.torch._route import report

__all__ = ["ProcessGroup", "State", "hook", "report"]
