"""The backend 'tally' of torch.distributed: sums, broadcasts and gathers through the box, the rest by gloo.

It is python alone: torch takes a ProcessGroup and Futures from there since 1.11, and so no part of this is compiled
against one version of torch.
"""
import os
import threading

import torch
import torch.distributed as dist

from tally.torch._route import Route, future_of, group_job, home_of

NAME = "tally"


class Work(dist._Work):  # pylint: disable=protected-access
    """One operation, as torch waits for it."""

    def __init__(self, operation, result, first):
        super().__init__()
        self._operation, self._result = operation, result
        self._future = future_of(operation, result, first)

    def wait(self, timeout=None):
        """True, when it is done; raises what it failed with. timeout: a timedelta, 0 for ever, as torch has it."""
        seconds = timeout.total_seconds() if timeout is not None else 0
        self._operation.wait(seconds if seconds > 0 else None)
        self._future.wait()
        _kept.discard(self)
        return True

    synchronize = wait

    def get_future(self):
        _kept.discard(self)
        return self._future

    def is_completed(self):
        return self._future.done()

    def is_success(self):
        return self._future.done() and self.exception() is None

    def exception(self):
        if not self._future.done():
            return None
        try:
            self._future.wait()
        except Exception as error:  # pylint: disable=broad-except
            return error
        return None

    def result(self):
        return self._result


class _Kept:
    """Works that C++ may hold. It asks what is written here only for as long as python keeps the object alive, so it is
    kept until somebody has waited for it or has its future; of those that nobody asks about, some thousand."""
    _MOST = 1000

    def __init__(self):
        self._lock = threading.Lock()
        self._works = {}

    def add(self, work):
        with self._lock:
            self._works[id(work)] = work
            if len(self._works) > 2 * self._MOST:
                for key in [key for key, old in self._works.items() if old.is_completed()][:-self._MOST]:
                    del self._works[key]
        return work

    def discard(self, work):
        with self._lock:
            self._works.pop(id(work), None)


_kept = _Kept()


class ProcessGroup(dist.ProcessGroup):
    """As init_process_group('tally') and new_group() make it. `inner` is gloo's, `route` says what goes where."""

    def __init__(self, inner, route, rank, world):
        super().__init__(rank, world)
        self.inner, self.route = inner, route

    def getBackendName(self):  # pylint: disable=invalid-name
        return NAME

    def _takes(self, tensors, any_type=False, reason="", devices=("cpu",)):
        """Do all of them go through the box? If not, this is counted. reason: why they do not, if that is known."""
        route = self.route
        for tensor in tensors:
            if tensor.device.type not in devices:
                reason = reason or tensor.device.type
            bytes_only = any_type and route.worker is not None
            reason = reason or ("" if bytes_only and not tensor.is_sparse else route.why_not(tensor))
        if reason:
            route.pass_on(reason, sum(t.numel() * t.element_size() for t in tensors))
        return not reason

    def allreduce(self, tensors, opts=None):
        # Of several tensors torch means the sum over those of one rank, too.
        return self._sums(tensors, opts, len(tensors) == 1, self.inner.allreduce)

    def allreduce_coalesced(self, tensors, opts=None):
        # Here each by itself: one operation over all of them.
        return self._sums(tensors, opts, True, self.inner.allreduce_coalesced)

    def _sums(self, tensors, opts, fits, otherwise):
        operation = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        mean = operation == dist.ReduceOp.AVG
        reason = ""
        if operation != dist.ReduceOp.SUM and not (mean and tensors[0].is_floating_point()):
            reason = _name_of(operation)
        elif not fits or len({tensor.dtype for tensor in tensors}) > 1:
            reason = "several tensors" if not fits else "several types"
        if not self._takes(tensors, reason=reason, devices=("cpu", *self.route.staging)):
            return otherwise(tensors, *((opts,) if opts is not None else ()))
        operation, first = self.route.reduce(tensors, mean=mean)
        return _kept.add(Work(operation, tensors, first))

    def broadcast(self, tensors, opts):
        if len(tensors) != 1 or not self._takes(tensors, any_type=True):
            return self.inner.broadcast(tensors, opts)
        tensor = tensors[0]
        home = home_of(tensor)
        return self._bytes([tensor], tensors, lambda: self.route.worker.broadcast_async(home, opts.rootRank),
                           lambda: None if home is tensor else tensor.copy_(home))

    def allgather(self, output_tensors, input_tensors, opts=None):
        flat_outputs = [tensor for tensors in output_tensors for tensor in tensors]
        alike = len(flat_outputs) == self.size() and all(
            out.shape == input_tensors[0].shape and out.dtype == input_tensors[0].dtype for out in flat_outputs)
        odd = "" if len(input_tensors) == 1 and alike else "several tensors, or of several shapes"
        if not self._takes([*input_tensors, *flat_outputs], any_type=True, reason=odd):
            rest = (opts,) if opts is not None else ()
            return self.inner.allgather(output_tensors, input_tensors, *rest)
        mine = home_of(input_tensors[0])
        gathered = torch.empty((self.size(), *mine.shape), dtype=mine.dtype)

        def hand_out():
            for output, part in zip(output_tensors[0], gathered):
                output.copy_(part)
        return self._bytes(flat_outputs, output_tensors, lambda: self.route.worker.all_gather_async(mine, gathered), hand_out)

    def _allgather_base(self, output, given, opts=None):
        odd = "" if output.dtype == given.dtype else "several types"
        if not self._takes([output, given], any_type=True, reason=odd):
            return self.inner._allgather_base(output, given, *((opts,) if opts is not None else ()))
        mine, home = home_of(given), home_of(output)
        return self._bytes([output], [output], lambda: self.route.worker.all_gather_async(mine, home),
                           lambda: None if home is output else output.copy_(home))

    def reduce_scatter(self, output_tensors, input_tensors, opts=None):
        operation = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        mean = operation == dist.ReduceOp.AVG
        parts = [tensor for tensors in input_tensors for tensor in tensors]
        fits = (len(output_tensors) == 1 and (operation == dist.ReduceOp.SUM or mean and parts[0].is_floating_point())
                and all(part.shape == output_tensors[0].shape for part in parts))
        if not self._takes([*output_tensors, *parts], reason="" if fits else "no sum of equal parts"):
            return self._scatter_slowly(output_tensors, input_tensors, opts)
        return self._reduce_parts(output_tensors[0], torch.stack([home_of(part) for part in parts]), mean, output_tensors)

    def _reduce_scatter_base(self, output, given, opts=None):
        operation = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        mean = operation == dist.ReduceOp.AVG
        sums = operation == dist.ReduceOp.SUM or mean and given.is_floating_point()
        if not self._takes([output, given], reason="" if sums else _name_of(operation)):
            return self._scatter_slowly([output], [list(given.chunk(self.size()))], opts)
        return self._reduce_parts(output, home_of(given), mean, [output])

    def _reduce_parts(self, output, parts, mean, result):
        home = home_of(output)
        how = {"non_finite": "propagate"} if parts.is_floating_point() else {}
        return self._bytes([output], result, lambda: self.route.worker.reduce_scatter_async(parts, home, mean=mean, **how),
                           lambda: None if home is output else output.copy_(home))

    def _scatter_slowly(self, outputs, inputs, opts):
        # gloo has none: the sum of all parts, of which each rank keeps its own.
        sums = [part.clone() for part in inputs[0]]
        given = dist.AllreduceOptions()
        given.reduceOp = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        for part in sums:
            self.inner.allreduce([part], given).wait()
        outputs[0].copy_(sums[self.rank()])
        return self.inner.barrier()

    def barrier(self, opts=None):
        if self.route.worker is None:
            return self.inner.barrier(*((opts,) if opts is not None else ()))
        return _kept.add(Work(self.route.issue(self.route.worker.barrier_async), [], lambda: None))

    def _bytes(self, counted, result, ask, after):
        self.route.count(sum(t.numel() * t.element_size() for t in counted))
        return _kept.add(Work(self.route.issue(ask), result, after))

    # What only gloo does.
    def reduce(self, tensors, opts):
        return self.inner.reduce(tensors, opts)

    def gather(self, output_tensors, input_tensors, opts):
        return self.inner.gather(output_tensors, input_tensors, opts)

    def scatter(self, output_tensors, input_tensors, opts):
        return self.inner.scatter(output_tensors, input_tensors, opts)

    def alltoall(self, output_tensors, input_tensors, opts):
        return self.inner.alltoall(output_tensors, input_tensors, opts)

    def alltoall_base(self, output, given, output_sizes, input_sizes, opts):
        return self.inner.alltoall_base(output, given, output_sizes, input_sizes, opts)

    def send(self, tensors, to, tag):
        return self.inner.send(tensors, to, tag)

    def recv(self, tensors, source, tag):
        return self.inner.recv(tensors, source, tag)

    def recv_anysource(self, tensors, tag):
        return self.inner.recv_anysource(tensors, tag)


def _name_of(operation):
    names = ("MIN", "MAX", "PRODUCT", "BAND", "BOR", "BXOR", "AVG")
    return next((name for name in names if operation == getattr(dist.ReduceOp, name)), "another operation")


def make(options, _unused=None):
    """What torch calls for init_process_group('tally') and new_group()."""
    rank, world = options.group_rank, options.group_size
    inner = dist.ProcessGroupGloo(dist.PrefixStore("tally-inner", options.store), rank, world, options.timeout)
    job = os.environ.get("TALLY_JOB")
    ranks = list(options.global_ranks_in_group)
    if ranks and job:  # empty: the default group
        job = group_job(job, ranks)
    route = Route(inner, name="tally.torch", job=job, rank=rank, world=world, fallback="warn", min_bytes=0)
    return ProcessGroup(inner, route, rank, world)


dist.Backend.register_backend(NAME, make, extended_api=True)
