"""A rank that uses the package `tally` in every way; run by the cases of tests/process/cases_python.py."""
import contextlib
import gc
import os
import signal
import sys
import threading
import time

import numpy

import tally

KINDS = (numpy.float32, numpy.float16, numpy.int32)


def raises(kind, call, *words):
    """The text of the exception that the call must raise."""
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return error
    raise AssertionError(f"{call} raised nothing, not {kind.__name__}")


def arrays(worker, rank, world):
    """Sums in place, out of place, of lists, of every type; the same as numpy's."""
    for kind in KINDS:
        mine = (numpy.arange(1000) % 50 + rank).astype(kind)
        expected = sum((numpy.arange(1000) % 50 + r).astype(numpy.float64) for r in range(world)).astype(kind)
        out = numpy.zeros(1000, kind)
        stats = worker.allreduce(mine, out)
        assert stats["elements"] == 1000 and not stats["overflow"], stats
        assert (out == expected).all() and (mine == (numpy.arange(1000) % 50 + rank)).all(), kind
        both = [mine[:300].copy(), mine[300:].copy()]
        worker.allreduce(both)
        assert (numpy.concatenate(both) == expected).all(), kind
    mean = numpy.full(10, rank, numpy.float32)
    worker.allreduce(mean, mean=True)
    assert (mean == (world - 1) / 2).all(), mean
    for wire in ("int16", "int32", "exact", "shortest"):
        value = numpy.full(100, 0.5, numpy.float32)
        worker.allreduce(value, wire=wire, priority=1)
        assert (value == world / 2).all(), (wire, value)
    bad = numpy.full(100, numpy.inf if rank == 0 else 1, numpy.float32)
    worker.allreduce(bad, non_finite="propagate")
    assert numpy.isnan(bad).all(), bad
    plain = bytearray(numpy.ones(4, numpy.float32).tobytes())  # anything with a buffer
    view = memoryview(plain).cast("f")
    worker.allreduce(view)
    assert list(view) == [world] * 4, list(view)


def bytes_of_any_kind(worker, rank, world):
    """Broadcasts, gathers, a scatter; of types that have no sum."""
    text = numpy.frombuffer(bytearray(b"rank %d says hello!" % rank), numpy.uint8).copy()
    worker.broadcast(text, 1)
    assert text.tobytes() == b"rank 1 says hello!", text.tobytes()
    numbers = numpy.array([rank, -rank], numpy.float64)
    everybodys = numpy.empty((world, 2), numpy.float64)
    worker.all_gather(numbers, everybodys)
    assert (everybodys == [[r, -r] for r in range(world)]).all(), everybodys
    given = numpy.arange(world * 5, dtype=numpy.float32)
    part = numpy.empty(5, numpy.float32)
    worker.reduce_scatter(given, part)
    assert (part == world * given[5 * rank:5 * rank + 5]).all(), part
    worker.barrier()


def mistakes(worker, rank, world):
    """Each is named, and harms nobody."""
    raises(TypeError, lambda: worker.allreduce(numpy.zeros(3)), "float64")
    raises(TypeError, lambda: worker.allreduce([1, 2, 3]), "not int")
    raises(TypeError, lambda: worker.allreduce("no array"), "not str")
    raises(TypeError, lambda: worker.allreduce(numpy.zeros((4, 4), numpy.float32).T[1:]), "strides")
    frozen = numpy.zeros(3, numpy.float32)
    frozen.flags.writeable = False
    raises(TypeError, lambda: worker.allreduce(frozen), "read-only", "out=")
    one, two = numpy.zeros(1, numpy.float32), numpy.zeros(2, numpy.float32)
    raises(ValueError, lambda: worker.allreduce(one, two), "1 elements in but 2 out")
    raises(TypeError, lambda: worker.allreduce([one, numpy.zeros(1, numpy.int32)]), "same type")
    raises(ValueError, lambda: worker.allreduce(one, wire="int8"), "'int8'", "int16")
    raises(ValueError, lambda: worker.allreduce(one, priority=4), "0..3")
    raises(tally.InvalidArgument, lambda: worker.broadcast(one, world), f"root {world}")
    raises(ValueError, lambda: worker.all_gather(two, one), "do not make 4")
    raises(TypeError, lambda: tally.join(jobs="x"), "no option jobs", "job")
    assert worker.closed is None
    error = raises(tally.InvalidArgument, lambda: worker.allreduce(numpy.zeros(1, numpy.int32), mean=True), "mean")
    assert isinstance(error, ValueError) and error.name == "TALLY_INVALID_ARGUMENT", error.name
    check = numpy.ones(2, numpy.float32)
    worker.allreduce(check)
    assert (check == world).all(), (rank, check)


def asynchronous(worker, rank, world):
    """Operations in flight, callbacks, arrays that nobody else holds, waits that end, threads."""
    told = threading.Event()
    values = numpy.ones(5000, numpy.float32)
    operation = worker.allreduce_async(values)
    operation.add_done_callback(lambda done: told.set() if done is operation else None)
    assert told.wait(30) and operation.done() and (values == world).all()
    again = threading.Event()
    operation.add_done_callback(lambda _: again.set())
    assert again.is_set(), "it is done: the callback is called at once"
    # The operation holds its array, whoever lets go of both.
    for _ in range(50):
        worker.allreduce_async(numpy.ones(3000, numpy.float32))
    gc.collect()
    worker.barrier()
    if rank == 0:
        waits = worker.barrier_async()
        error = raises(tally.Timeout, lambda: waits.wait(0.2), "goes on")
        assert isinstance(error, TimeoutError)
    else:
        time.sleep(0.5)
        waits = worker.barrier_async()
    waits.wait()
    # The GIL is not held while one waits.
    results = []
    threads = [threading.Thread(target=lambda: results.append(worker.allreduce(numpy.ones(10, numpy.int32))))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert worker.statistics()["results"] > 0 and worker.membership["world"] == world


def fork(worker, world):
    """The child has no worker, may end, and the parent goes on."""
    pid = os.fork()
    if pid == 0:
        error = raises(tally.Error, worker.barrier, "belongs to process")
        os._exit(0 if error.name == "TALLY_CLOSED" else 1)
    assert os.waitpid(pid, 0)[1] == 0
    value = numpy.ones(3, numpy.float32)
    worker.allreduce(value)
    assert (value == world).all()


def everything():
    with tally.join() as worker:
        rank, world = worker.membership["rank"], worker.membership["world"]
        arrays(worker, rank, world)
        bytes_of_any_kind(worker, rank, world)
        mistakes(worker, rank, world)
        asynchronous(worker, rank, world)
        fork(worker, world)
    raises(tally.Error, worker.barrier, "closed")
    print("all good")


def interrupted():
    """Ctrl-C ends a wait for a rank that does not come; the exception aborts the job."""
    with tally.join() as worker:
        worker.barrier()
        if worker.membership["rank"] == 0:
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            worker.allreduce(numpy.ones(10, numpy.float32))
        else:
            raises(tally.Error, lambda: time.sleep(1) or [worker.barrier() for _ in range(100)], "KeyboardInterrupt")
            print("all good")


def ends_with_pending_work():
    """A program that ends in the middle: its interpreter does, in time, and the other rank hears of it."""
    worker = tally.join()
    worker.barrier()
    if worker.membership["rank"] == 0:
        worker.allreduce_async(numpy.ones(100_000, numpy.float32))
        print("all good")
        return
    while worker.closed is None:
        time.sleep(0.05)
    assert "without leaving" in worker.closed, worker.closed
    print("all good")


def ends_beside_waiting_threads():
    """Threads that ask over and over whether a sum is done, and go on while the interpreter ends."""
    worker = tally.join()
    worker.barrier()
    if worker.membership["rank"] == 0:
        operation = worker.allreduce_async(numpy.ones(10, numpy.float32))
        asked = threading.Semaphore(0)

        def ask():
            while True:
                with contextlib.suppress(tally.Error):
                    operation.wait(0)
                asked.release()
        for _ in range(4):
            threading.Thread(target=ask, daemon=True).start()
        for _ in range(100):
            asked.acquire()
    else:
        while worker.closed is None:
            time.sleep(0.05)
    print("all good")


def leaves_by_itself():
    """Nobody says leave(): the end of both interpreters does, in order."""
    worker = tally.join()
    value = numpy.ones(10, numpy.float32)
    worker.allreduce(value)
    print("all good")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
