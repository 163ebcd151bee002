"""Keys and values on servers, with PS-lite's interface for workers (docs/kv.md); servers and scheduler are tally-kv.

    import numpy, tally.kv
    with tally.kv.start():                   # DMLC_* from the environment; when all workers and servers are there
        worker = tally.kv.Worker()
        keys = numpy.array([3, 7, 11], numpy.uint64)                  # each once, ascending
        worker.push(keys, numpy.ones((3, 16), numpy.float32))         # rows of 16 values
        rows = worker.pull(keys)                                      # (3, 16)

Rows that all workers train together, in rounds, are a Table.

Keys are arrays of uint64 or int64, values of the worker's dtype; numpy's, torch's on the CPU, or anything with a buffer.
They are not copied: leave them as they are until the request is done. Any thread may call anything; no call holds the GIL
while it waits, and Ctrl-C interrupts it. What is wrong with keys or lens is an exception with its place, `index`.
"""
import atexit
import os
import threading
import weakref

import numpy

from tally import _arrays, _kv
from tally._errors import Error, InvalidArgument, Refused, Timeout, make

__all__ = ["Error", "InvalidArgument", "Operation", "Refused", "Table", "Timeout", "Worker", "barrier", "finalize", "num_servers",
           "num_workers", "rank", "start", "statistics"]

_WORKERS = {numpy.dtype(numpy.float32): (_kv.WorkerFloat32, _arrays.FLOAT32),
            numpy.dtype(numpy.int32): (_kv.WorkerInt32, _arrays.INT32)}
_INVALID, _CLOSED = 1, 9  # of tally.h

rank = _kv.rank
num_workers = _kv.num_workers
num_servers = _kv.num_servers
barrier = _kv.barrier
statistics = _kv.statistics


def start():
    """Begins, once in a process: returns when everybody is there. As a context manager it finalizes at the end, and goes
    without waiting for the others when an exception gets out."""
    _kv.start()
    return _Begun()


def finalize(wait=True):
    """Ends this worker, which leaves tables that it did not close; wait: for all who are alive to come here too. A process does
    not begin again."""
    global _over  # pylint: disable=global-statement
    if not _over:
        _over = True
        for table in list(_tables):
            table._table.give_up()  # pylint: disable=protected-access
        _kv.finalize(wait)


class _Begun:
    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        finalize(wait=error is None)


class Operation:
    """A request under way. It goes on, with its arrays, when nobody holds this any more."""

    def __init__(self, operation, result):
        self._operation = operation
        self._result = result

    def wait(self, timeout=None):
        """What it pulls, when it is done; raises what it failed with. timeout in seconds: Timeout, and it goes on."""
        return self._result(self._operation.wait(timeout))

    def done(self):
        """With or without success."""
        return self._operation.done()


class Worker:
    """Pushes to keys and pulls from them. app: of the servers that are meant, 0 is tally-kv's. dtype: of all values, float32 or
    int32."""

    def __init__(self, app=0, dtype=numpy.float32):
        if numpy.dtype(dtype) not in _WORKERS:
            raise TypeError(f"values are float32 or int32, not {numpy.dtype(dtype)}")
        self.dtype = numpy.dtype(dtype)
        of_type, self._type = _WORKERS[self.dtype]
        self._worker, self._process = of_type(app), os.getpid()

    def push_async(self, keys, values, lens=None, *, cmd=0, priority=0):
        """values: as many for each key, or lens[i] for keys[i], one behind the other."""
        return Operation(self._alive().push(_keys(keys), self._values(values), _lens(lens), cmd, priority), lambda _: None)

    def pull_async(self, keys, out=None, *, lens=False, cmd=0, priority=0):
        """wait() returns the values, of shape (keys, values of each), or those in out, which has room for just as many.
        lens: (values one behind the other, how many each key has), for keys that have not equally many."""
        room = self._room(out)
        return Operation(self._alive().pull(_keys(keys), room, cmd, priority), lambda got: _pulled(got, out, lens))

    def push_pull_async(self, keys, values, lens=None, out=None, *, cmd=0, priority=0):
        """What the servers make of the values, in their shape. Through a box it is the sum of what all workers give, for
        which all call it with the same keys and lens, in the same order."""
        mine = self._values(values)
        shape = numpy.shape(values)
        call = self._alive().push_pull(_keys(keys), mine, _lens(lens), self._room(out), cmd, priority)
        return Operation(call, lambda got: got[0].reshape(shape) if out is None and got[0].size == mine[1] else
                         _pulled(got, out, True)[0])

    def push(self, keys, values, lens=None, **how):
        """push_async(), waited for: all servers of the keys have it."""
        return self.push_async(keys, values, lens, **how).wait()

    def pull(self, keys, out=None, **how):
        """pull_async(), waited for."""
        return self.pull_async(keys, out, **how).wait()

    def push_pull(self, keys, values, lens=None, out=None, **how):
        """push_pull_async(), waited for."""
        return self.push_pull_async(keys, values, lens, out, **how).wait()

    def _alive(self):
        return _of_this_process(self._worker, self._process)

    def _values(self, values, writable=False):
        memory = _arrays.memory(values, writable, (self._type,))
        return memory.address, memory.count, memory.kept

    def _room(self, out):
        return (0, 0, None) if out is None else self._values(out, True)


class Table:
    """Rows of float32 by key, which all workers push gradients to in rounds; rows that most workers touch are at every worker
    while they are hot, and are summed in a box if there is one (docs/kv.md, Tables). The same options at all workers.

    rule: what a round's sum does to a row, sum: row += sum, sgd: row -= rate * sum. most_hot: keys that are hot at a time, at
    most (None: 30,000, and of an asynchronous table none); every: rounds from one choice of them to the next. number: which
    table of the system it is. age: seconds, not 0: the table is asynchronous, its rounds end so long after their first push,
    or with the pushes of `least` workers (0: all). If it has hot keys, the box sums nothing else until it is closed. As a
    context manager it closes at the end; when an exception gets out this worker leaves, and the rounds of the others fail,
    unless the table is asynchronous without hot keys."""

    def __init__(self, width, rule="sum", rate=0.01, *, most_hot=None, every=64, number=0, age=0, least=0):
        if rule not in ("sum", "sgd"):
            raise ValueError(f"rule: {rule!r} is neither sum nor sgd")
        if 0 < age < 0.001:
            raise ValueError(f"age: {age} s is less than a millisecond")
        self.width = width
        self._lock = threading.Lock()  # one call at a time
        self._table = _kv.Table(width, rule == "sgd", rate, most_hot, every, number, round(1000 * age), least)
        self._process = os.getpid()
        _tables.add(self)

    def pull(self, keys, out=None):
        """The keys' rows after the last round that ended here, (keys, width), into out if it is given. Zeros, where nobody
        pushed."""
        given = _keys(keys)
        rows = numpy.empty((given[1], self.width), numpy.float32) if out is None else out
        with self._lock:
            self._alive().pull(given, self._rows(rows, given[1], True))
        return rows

    def push(self, keys, gradients):
        """(keys, width); every worker once in a round, if only without keys. Returns when the round has ended: rows have what
        all workers pushed in it (asynchronous: what this one did). After a failure the table is over at all workers."""
        given = _keys(keys)
        with self._lock:
            self._alive().push(given, self._rows(gradients, given[1]))

    def close(self):
        """All workers: hot rows go back to their servers. Again is fine."""
        with self._lock:
            self._alive().close()

    def statistics(self):
        """Of this worker: rounds, hot_pairs and cold_pairs that it pushed, hot_keys now, sets that came into force, moves,
        and late pushes, which are in a later round than the one behind this worker's last."""
        return self._table.statistics()

    def _alive(self):
        return _of_this_process(self._table, self._process)

    def _rows(self, rows, keys, writable=False):
        memory = _arrays.memory(rows, writable, (_arrays.FLOAT32,))
        if tuple(rows.shape) != (keys, self.width):
            raise make(_INVALID, f"{keys} rows of width {self.width} have shape ({keys}, {self.width}), not {tuple(rows.shape)}")
        return memory.address, memory.count, memory.kept

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if error is None:
            self.close()
        else:
            self._table.give_up()


def _of_this_process(what, process):
    if process != os.getpid():
        raise make(_CLOSED, f"this belongs to process {process}; a child of fork() has none")
    return what


def _keys(keys):
    array = numpy.asarray(keys)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(f"keys are whole numbers, an array of uint64 or int64, not of {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"keys are one behind the other, not of shape {array.shape}")
    if array.dtype.kind == "i" and array.size and array.min() < 0:
        place = int(array.argmin())
        raise make(_INVALID, f"key {place} ({array[place]}) is below 0", place)
    if array.dtype == numpy.int64:
        array = array.view(numpy.uint64)
    array = numpy.ascontiguousarray(array, numpy.uint64)
    return array.__array_interface__["data"][0] if array.size else 0, array.size, array


def _lens(lens):
    return [] if lens is None else [int(length) for length in lens]


def _pulled(got, out, with_lens):
    values, lens = got
    if with_lens:
        return (values if out is None else out), lens
    if out is not None:
        return out
    if lens.size and (lens != lens[0]).any():
        place = int((lens != lens[0]).argmax())
        raise make(_INVALID, f"key {place} has {lens[place]} values and key 0 has {lens[0]}: rows of one array are equally long; "
                   "pull(lens=True) tells them apart", place)
    return values.reshape(lens.size, -1)


_over = False  # finalize() was called
_tables = weakref.WeakSet()


def _at_exit():
    # The others must not wait for an interpreter that has ended; they hear that this worker is lost.
    if _kv.started() and not _over:
        finalize(wait=False)


def _after_fork():
    global _over  # pylint: disable=global-statement
    _over = False
    _tables.clear()
    _kv.forked()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork)
