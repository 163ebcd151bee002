"""Sums over all ranks of a job, made by a Tally box.

    import numpy, tally
    with tally.join() as worker:            # TALLY_SWITCH, TALLY_JOB, RANK, WORLD_SIZE ... from the environment
        gradient = numpy.ones(1000, numpy.float32)
        worker.allreduce(gradient)          # in place, the same bits at every rank

Arrays are numpy's, torch's on the CPU, or anything with a buffer: contiguous, of float32, float16 or int32 (of a tensor
also bfloat16). All ranks issue the same operations in the same order. Any thread may call anything; no call holds the
GIL while it waits, and Ctrl-C interrupts it.
"""
import atexit
import math
import os
import sys
import threading
import time

from tally import _arrays, _tally
from tally._errors import Error, InvalidArgument, NotFinite, Refused, Timeout

__all__ = ["Error", "InvalidArgument", "NotFinite", "Operation", "Refused", "Timeout", "Worker", "join"]
__version__ = _tally.version()

_WIRE = {"shortest": 0, "int16": 16, "int32": 32, "exact": 384}
_NON_FINITE = {"fail": 0, "propagate": 1}
_OPTIONS = ("job", "token", "box", "transport", "address", "debug", "rank", "world", "elements", "mtu", "poll",
            "priority")
_EXIT_SECONDS = 5  # that the end of the interpreter waits for the other ranks, and again for this one's threads

_workers = set()  # of all that were not closed: who lets go of one has not left the job
_completions = None
_lock = threading.Lock()
_enders = []  # stop(deadline) of threads beside these: called in this order when all workers are closed


def join(*, join_timeout=None, **options):
    """A Worker, when all ranks of the job have joined. What is not said comes from the environment and TALLY_CONFIG, as
    docs/first_steps.md has it. options: job, token, box, transport, address, rank, world, elements, mtu, poll,
    priority, debug; join_timeout in seconds. Raises Refused, Timeout (with the ranks that are missing), Error."""
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise TypeError(f"join() has no option {', '.join(unknown)}; it has {', '.join(_OPTIONS)}, join_timeout")
    said = {name: value for name, value in options.items() if value is not None}
    if join_timeout is not None:
        said["join_timeout_ms"] = int(1000 * join_timeout)
    _start_completions()
    worker = Worker(_tally.join(said))
    _workers.add(worker)
    return worker


class Operation:
    """One operation under way. It goes on, with its arrays, when nobody holds this any more."""

    def __init__(self, operation, told):
        self._operation = operation
        self._told = told

    def wait(self, timeout=None):
        """Its statistics, when it is done; raises what it failed with. timeout in seconds: Timeout, and it goes on."""
        return self._operation.wait(timeout)

    def done(self):
        """With or without success."""
        return self._operation.done()

    def add_done_callback(self, callback):
        """callback(operation) is called once, on a thread of this package, when it is done; at once if it is."""
        def call():
            # The library tells of it a moment before it is done.
            try:
                self._operation.wait(None)
            except Error:
                pass
            callback(self)
        self._told.add(call)


class _Told:
    """Who is called when an operation is done: on the completions' thread, or at once when that has been."""

    def __init__(self):
        self._lock = threading.Lock()
        self._callbacks = []

    def add(self, callback):
        with self._lock:
            if self._callbacks is not None:
                self._callbacks.append(callback)
                return
        callback()

    def __call__(self):
        with self._lock:
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks:
            callback()


class Worker:
    """A rank of a job, until leave() or close(). As a context manager it leaves at the end, and aborts the job when an
    exception gets out. At the end of the interpreter a worker leaves, if the other ranks do within 5 seconds; else the
    job is aborted."""

    def __init__(self, worker):
        self._worker = worker

    def allreduce_async(self, array, out=None, *, mean=False, wire="shortest", non_finite="fail", priority=None,
                        timeout=None):
        """Sums element by element over all ranks, in place or into `out`. array: one, or a list, which is one operation
        over the concatenation; so is out then. mean: divided by the ranks in the sum. wire: shortest, int16 (half the
        bytes, and coarse), int32 or exact. non_finite: fail, or propagate NaN. priority: class 0..3. timeout in
        seconds: the job fails when it takes longer."""
        how = _how(priority, timeout, mean, wire, non_finite)
        arrays = array if isinstance(array, (list, tuple)) else [array]
        outs = arrays if out is None else out if isinstance(out, (list, tuple)) else [out]
        if len(outs) != len(arrays):
            raise ValueError(f"{len(arrays)} arrays in but {len(outs)} out")
        ins = [_arrays.memory(each, writable=out is None) for each in arrays]
        sums = ins if out is None else [_arrays.memory(each) for each in outs]
        types = {each.type for each in (*ins, *sums)}
        if len(types) > 1:
            raise TypeError("all arrays of an operation hold the same type")
        for each, to in zip(ins, sums):
            if each.count != to.count:
                raise ValueError(f"{each.count} elements in but {to.count} out")
        return self._issue(self._alive().allreduce, types.pop() if types else _arrays.FLOAT32,
                           [(each.address, to.address, each.count) for each, to in zip(ins, sums)], how,
                           (ins, sums))

    def broadcast_async(self, array, root, *, priority=None, timeout=None):
        """The bytes of rank `root`'s array, of any type, into that of every rank."""
        address, size, kept = _arrays.raw(array)
        return self._issue(self._alive().broadcast, address, size, root, _how(priority, timeout), kept)

    def all_gather_async(self, array, out, *, priority=None, timeout=None):
        """Every rank's array, of any type, in the order of ranks into `out`, which has room for all."""
        mine, size, kept = _arrays.raw(array, writable=False)
        to, room, kept_too = _arrays.raw(out)
        world = self.membership["world"]
        if room != world * size:
            raise ValueError(f"{size} bytes of each of {world} ranks do not make {room}")
        return self._issue(self._alive().all_gather, mine, to, size, _how(priority, timeout), (kept, kept_too))

    def reduce_scatter_async(self, array, out, *, mean=False, wire="shortest", non_finite="fail", priority=None,
                             timeout=None):
        """Of the sums of `array`, this rank's part into `out`: as many elements for each rank."""
        how = _how(priority, timeout, mean, wire, non_finite)
        given, part = _arrays.memory(array, writable=False), _arrays.memory(out)
        world = self.membership["world"]
        if given.type != part.type:
            raise TypeError("all arrays of an operation hold the same type")
        if given.count != world * part.count:
            raise ValueError(f"{part.count} elements for each of {world} ranks do not make {given.count}")
        return self._issue(self._alive().reduce_scatter, given.type, given.address, part.address, part.count, how,
                           (given, part))

    def barrier_async(self, *, priority=None, timeout=None):
        """Done when every rank has issued it."""
        told = _Told()
        return Operation(self._alive().barrier(_how(priority, timeout), told), told)

    def allreduce(self, array, out=None, **how):
        """allreduce_async(), waited for."""
        return self.allreduce_async(array, out, **how).wait()

    def broadcast(self, array, root, **how):
        """broadcast_async(), waited for."""
        return self.broadcast_async(array, root, **how).wait()

    def all_gather(self, array, out, **how):
        """all_gather_async(), waited for."""
        return self.all_gather_async(array, out, **how).wait()

    def reduce_scatter(self, array, out, **how):
        """reduce_scatter_async(), waited for."""
        return self.reduce_scatter_async(array, out, **how).wait()

    def barrier(self, **how):
        """barrier_async(), waited for."""
        return self.barrier_async(**how).wait()

    def leave(self, timeout=60):
        """Orderly end, when all ranks have come here; seconds. Timeout: it goes on, call it again."""
        self._alive().leave(timeout)
        self.close()

    def abort(self, reason):
        """Fails everything pending, here and at the other ranks, with the reason."""
        self._alive().abort(str(reason))

    def close(self):
        """Gives the worker up; aborts the job unless it was left."""
        _workers.discard(self)
        self._worker.free()

    @property
    def closed(self):
        """Why nothing can be issued any more; None while it can."""
        return self._worker.closed()

    @property
    def membership(self):
        """What the box said when this rank joined: rank, world, elements, window, lease in seconds ..."""
        return self._alive().membership()

    def statistics(self):
        """The worker's counters by name."""
        return self._alive().statistics()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if self._worker.closed() is None:
            if error is None:
                self.leave()
            else:
                self.abort(f"{kind.__name__}: {error}")
        self.close()

    def _alive(self):
        why = self._worker.closed()
        if why is not None:
            from tally import _errors  # pylint: disable=import-outside-toplevel
            raise _errors.make(9, why)
        return self._worker

    def _issue(self, call, *arguments):
        told = _Told()
        return Operation(call(*arguments, told), told)


def _how(priority, timeout, mean=False, wire="shortest", non_finite="fail"):
    if wire not in _WIRE:
        raise ValueError(f"wire: {wire!r} is none of {', '.join(_WIRE)}")
    if non_finite not in _NON_FINITE:
        raise ValueError(f"non_finite: {non_finite!r} is none of {', '.join(_NON_FINITE)}")
    if priority is not None and priority not in range(4):
        raise ValueError(f"priority: class {priority!r} is not in 0..3")
    if timeout is not None and not 0 < timeout < 4_000_000:
        raise ValueError(f"timeout: {timeout!r} is not a number of seconds above 0")
    return _tally.How(-1 if priority is None else 1000 + priority, 0 if timeout is None else math.ceil(1000 * timeout),
                      mean, _WIRE[wire], _NON_FINITE[non_finite])


def _start_completions():
    global _completions  # pylint: disable=global-statement
    with _lock:
        if _completions is None:
            _completions = threading.Thread(target=_run_completions, name="tally", daemon=True)
            _completions.start()


def _run_completions():
    while done := _tally.take_done():
        for callback, arrays in done:
            try:
                if callback is not None:
                    callback()
            except Exception:  # pylint: disable=broad-except
                _tell_of_exception()
            del callback, arrays
        del done


def _tell_of_exception():
    """Of the one that is being handled: as if it had ended this thread, which goes on."""
    threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread())))


def _at_exit():
    # Orderly where the others do the same; the job must not hang on an interpreter that has ended. All begin before the
    # first is waited for: the others may wait for them in another order.
    workers = list(_workers)
    for worker in workers:
        try:
            worker._worker.leave(0)  # pylint: disable=protected-access
        except Error:
            pass
    deadline = time.monotonic() + _EXIT_SECONDS
    for worker in workers:
        try:
            worker.leave(max(0, deadline - time.monotonic()))
        except Error:
            if worker.closed is None:
                worker.abort("the program ended without leaving the job")
        worker.close()
    deadline = time.monotonic() + _EXIT_SECONDS
    if _completions is not None:
        _tally.stop_completions()
        _completions.join(deadline - time.monotonic())
    for stop in _enders:
        stop(deadline)


def _after_fork():
    global _completions, _lock  # pylint: disable=global-statement
    _completions, _lock = None, threading.Lock()
    _workers.clear()
    _tally.forked()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
