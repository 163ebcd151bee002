"""Which tensors go through the box, what becomes of the others, and what is counted of both."""
import atexit
import collections
import hashlib
import os
import queue
import threading
import time
import warnings

import torch
import torch.distributed as dist
from torch.futures import Future

import tally
from tally.torch._cuda import Copies
from tally.torch._order import Order

_TYPES = (torch.float32, torch.int32, torch.float16, torch.bfloat16)
_routes = []
_made = collections.Counter()  # groups by their ranks, for names of their own


class _Callers:
    """Threads on which torch's continuations run: what stands behind `then()` may wait for another operation, so none may
    keep others from being called. As many as are blocked at a time, and one."""

    def __init__(self):
        self._calls, self._lock, self._threads = queue.SimpleQueue(), threading.Lock(), []
        self._idle, self._stopped = 0, False  # threads that wait for a call, less calls that wait for a thread

    def call(self, what):
        with self._lock:
            if not self._stopped:
                if self._idle <= 0:
                    self._start()
                self._idle -= 1
                self._calls.put(what)
                return
        what()

    def _start(self):
        thread = threading.Thread(target=self._run, name="tally-torch", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if not self._threads:
                raise
            return  # no more threads: one of those that are blocked takes it
        self._threads.append(thread)
        self._idle += 1

    def _run(self):
        for what in iter(self._calls.get, None):
            try:
                what()
            except Exception:  # pylint: disable=broad-except
                tally._tell_of_exception()  # pylint: disable=protected-access
            with self._lock:
                self._idle += 1

    def stop(self, deadline):
        """What is called already comes to its end, if it does by then: a thread that comes back to torch's C++ when the
        interpreter ends, and asks for the GIL there, ends the process (std::terminate). It can sum nothing any more."""
        with self._lock:
            self._stopped = True
            for _ in self._threads:
                self._calls.put(None)
        for thread in self._threads:
            thread.join(max(0, deadline - time.monotonic()))


_callers = _Callers()


class Route:
    """A Worker for one process group, or the reason why there is none; the same at all of its ranks."""

    staging = {"cuda": Copies()}  # by type of device

    def __init__(self, group, *, name, job, rank, world, fallback, min_bytes, probe=None, wire="shortest", device="cpu"):
        """group: can allreduce a tensor of that device, which decides whether all have joined. probe: MiB (TALLY_PROBE, 0)
        that are summed both ways first, by that wire type, and the faster one is taken."""
        if fallback not in ("warn", "silent", "never"):
            raise ValueError(f"fallback: {fallback!r} is none of warn, silent, never")
        self.required = fallback == "never" or os.environ.get("TALLY_REQUIRE") == "1"
        self.silent = fallback == "silent"
        self.name, self.rank, self.world, self.min_bytes = name, rank, world, min_bytes
        self.operations = self.bytes = self.copies = 0
        self.fallbacks = collections.Counter()
        self.fallback_bytes = 0
        self._lock = threading.Lock()
        self.worker, self.absent, values = self._join(group, job, device, probe)
        self._order = Order.of(self.worker) if self.worker is not None else None
        if values > 0:
            self.absent = self._slower(group, torch.rand(values, device=device), wire)
            if self.absent:
                self.worker = None  # it stays in the job: another route of this program may have it, too
        if self.absent and self.required:
            raise RuntimeError(f"{name}: the box is required (TALLY_REQUIRE or fallback='never'), but {self.absent}")
        if self.absent:
            self._say(f"{name}: everything goes by the ring, since {self.absent}")
        _routes.append(self)

    def _join(self, group, job, device, probe):
        """The worker, or why there is none; how many values all want to be summed both ways."""
        worker, why, values = None, "", 0
        if os.environ.get("TALLY_DISABLE") == "1":
            why = "TALLY_DISABLE is set"
        else:
            try:
                probe = float(os.environ.get("TALLY_PROBE") or 0) if probe is None else probe
                values = 0 if self.required else int(probe * 2 ** 18)
                worker = _worker_of(job, self.rank, self.world)
            except Exception as error:  # pylint: disable=broad-except
                why = str(error)  # whatever it is: the others wait for this rank's word
        # One that did not join is enough: all must go the same way.
        joined = torch.tensor([1 if worker else 0, values], dtype=torch.int32, device=device)
        group.allreduce([joined], _options(dist.ReduceOp.MIN)).wait()
        all_joined, values = joined.tolist()
        if all_joined == 1:
            return worker, "", values
        if worker is not None:
            _joined.pop((job, self.rank, self.world), None)
            worker.close()
        return None, why or "another rank could not join the box's job", 0

    def _slower(self, group, tensor, wire):
        """By how much the box is, where the ring takes less than nine tenths of its time; else ''."""
        def least(once):
            times = []
            for _ in range(3):
                begun = time.monotonic()
                once()
                tensor[:1].cpu()  # a GPU's stream has come to it
                times.append(time.monotonic() - begun)
            return min(times)

        def by_the_box():
            operation, bring_back = self._sum([tensor], mean=True, wire=wire)
            operation.wait()
            bring_back()
        # Means: values stay in range, and none is 0, which a box need not send.
        took = torch.tensor([least(by_the_box), least(lambda: group.allreduce([tensor.clone()]).wait())],
                            device=tensor.device)
        group.allreduce([took], _options(dist.ReduceOp.MAX)).wait()
        box, ring = took.tolist()
        size = tensor.numel() / 2 ** 18
        return f"that sums {size:.3g} MiB in {1e3 * ring:.1f} ms, the box in {1e3 * box:.1f} ms" if ring < 0.9 * box else ""

    def why_not(self, tensor):
        """Why a tensor does not go through the box; '' when it does. Of what is the same at all ranks."""
        if self.worker is None:
            return "no box"
        if tensor.dtype not in _TYPES:
            return str(tensor.dtype).removeprefix("torch.")
        if tensor.is_sparse:
            return "sparse"
        if tensor.device.type != "cpu" and tensor.device.type not in self.staging:
            return tensor.device.type
        if tensor.numel() * tensor.element_size() < self.min_bytes:
            return f"below {self.min_bytes} bytes"
        return ""

    def pass_on(self, reason, size):
        """Counts what goes by the ring; says each reason once."""
        with self._lock:
            first = self.fallbacks[reason] == 0
            self.fallbacks[reason] += 1
            self.fallback_bytes += size
        if self.required:
            raise RuntimeError(f"{self.name}: the box is required (TALLY_REQUIRE or fallback='never'), and does not sum "
                               f"this: {reason}")
        if first and self.worker is not None:
            self._say(f"{self.name}: by the ring and not through the box: {reason}")

    def count(self, size, copied=False):
        """Something goes through the box."""
        with self._lock:
            self.operations += 1
            self.bytes += size
            self.copies += copied

    def reduce(self, tensors, **how):
        """(operation, first): one operation over the tensors, and what is to be called before its sums are in them. Those
        that are not contiguous, or not in memory of the CPU, go through a copy."""
        copied = any(t.device.type in self.staging or not t.is_contiguous() for t in tensors)
        self.count(sum(t.numel() * t.element_size() for t in tensors), copied)
        return self._sum(tensors, **how)

    def _sum(self, tensors, **how):
        homes, ready = [], []
        for tensor in tensors:
            if tensor.device.type in self.staging:
                home, event = self.staging[tensor.device.type].bring(tensor)
                ready.append(event)
            else:
                home = home_of(tensor)
            homes.append(home)
        if tensors[0].dtype.is_floating_point:
            how["non_finite"] = "propagate"

        def bring_back():
            for home, tensor in zip(homes, tensors):
                if tensor.device.type in self.staging:
                    self.staging[tensor.device.type].bring_back(home, tensor)
                elif home is not tensor:
                    tensor.copy_(home)
        return self.issue(lambda: self.worker.allreduce_async(homes, **how), ready), bring_back

    def issue(self, ask, ready=()):
        """The operation that ask() begins: in the order of these calls, and when the events are over."""
        return self._order.issue(ask, ready)

    def _say(self, text):
        if not self.silent and self.rank == 0:
            warnings.warn("tally: " + text, stacklevel=5)


def _worker_of(job, rank, world):
    """One worker for a rank of a job in a process: a second model of a program, or its next process group, sums over the
    same, in the order in which the program asks."""
    key = (job, rank, world)
    worker = _joined.get(key)
    if worker is None or worker.closed is not None:
        worker = _joined[key] = tally.join(job=job, rank=rank, world=world)
    return worker


_joined = {}


def home_of(tensor):
    """The tensor itself, or a copy that a worker can sum."""
    return tensor if tensor.is_contiguous() else tensor.detach().contiguous()


def future_of(operation, result, first=lambda: None, *, partial=False):
    """A Future that gets `result`, after first(), when the operation is done, or what it failed with. partial: sums that
    lack the ranks that came too late (`stragglers`) will do, as a mean of the others does."""
    devices = {one.device for one in (result if isinstance(result, list) else [result])
               if isinstance(one, torch.Tensor) and one.device.type != "cpu"}
    ended = Future(devices=list(devices)) if devices else Future()

    def finish(_):
        stats = operation.wait()
        if stats["incomplete"] and not partial:
            raise RuntimeError("some sums lack ranks that came too late, since the job has stragglers; the hook's means can "
                               "be without them, nothing else")
        with torch.no_grad():  # a matter of each thread
            first()
        return result
    # What finish() raises is an error of the Future for C++ too; set_exception() is one for python only.
    future = ended.then(finish)
    operation.add_done_callback(lambda _: _callers.call(lambda: ended.set_result(None)))
    return future


def group_job(job, ranks):
    """JOB/GROUP of these global ranks: another one each time the same ranks make a group."""
    digest = hashlib.sha256(",".join(map(str, ranks)).encode()).hexdigest()[:12]
    _made[digest] += 1
    return f"{job}/{digest}-{_made[digest]}"


def _options(operation):
    options = dist.AllreduceOptions()
    options.reduceOp = operation
    return options


def report():
    """One line: what went through the box in this process, and what did not, by reason."""
    through = sum(route.bytes for route in _routes)
    operations = sum(route.operations for route in _routes)
    past = sum(route.fallback_bytes for route in _routes)
    reasons = sum((route.fallbacks for route in _routes), collections.Counter())
    share = 100 * through / (through + past) if through + past else 0
    line = f"tally: {share:.1f} % of {(through + past) / 1e9:.3f} GB summed by the box, in {operations} operations"
    copies = sum(route.copies for route in _routes)
    if copies:
        line += f" ({copies} through a copy)"
    if reasons:
        line += f", {sum(reasons.values())} by the ring (" + ", ".join(f"{k}: {n}" for k, n in reasons.items()) + ")"
    return line


def _say_at_exit():
    if _routes and _routes[0].rank == 0 and os.environ.get("TALLY_DEBUG") in ("INFO", "TRACE"):
        print(report(), flush=True)


def _after_fork():
    global _callers  # pylint: disable=global-statement
    _callers = _Callers()  # those threads are the other process's
    Order._started.clear()  # pylint: disable=protected-access


atexit.register(_say_at_exit)
os.register_at_fork(after_in_child=_after_fork)
# What stands in an order is begun, or fails, before its callers are told to stop.
tally._enders.extend([Order.stop_all, lambda deadline: _callers.stop(deadline)])  # pylint: disable=protected-access
