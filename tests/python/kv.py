"""A worker of tally.kv in every way; run by the cases of tests/process/cases_kv.py."""
import gc
import os
import signal
import subprocess
import sys
import threading

import numpy

import tally.kv
from sums import raises

FLOAT = numpy.float32


def keys_of(*keys):
    return numpy.array(keys, numpy.uint64)


def round_trips(worker, first):
    """Rows of one length and of several, in place and not; keys of either sign."""
    keys = keys_of(first, first + 1, 2**64 - 1 - first)
    rows = numpy.arange(12, dtype=FLOAT).reshape(3, 4)
    worker.push(keys, rows)
    worker.push(keys, rows)
    got = worker.pull(keys)
    assert got.dtype == FLOAT and (got == 2 * rows).all(), got
    out = numpy.zeros((3, 4), FLOAT)
    assert worker.pull(keys, out) is out and (out == 2 * rows).all(), out
    got += 1  # it is the caller's
    signed = keys[:2].astype(numpy.int64)
    assert (worker.pull(signed) == 2 * rows[:2]).all()
    assert (worker.pull([first, first + 1]) == 2 * rows[:2]).all()
    uneven = keys_of(first + 10, first + 11)
    worker.push(uneven, numpy.array([1, 2, 3], FLOAT), lens=[1, 2])
    values, lens = worker.pull(uneven, lens=True)
    assert values.tolist() == [1, 2, 3] and lens.tolist() == [1, 2], (values, lens)
    error = raises(tally.InvalidArgument, lambda: worker.pull(uneven), "key 1 has 2 values and key 0 has 1", "lens=True")
    assert error.index == 1
    both = worker.push_pull(keys, rows)
    assert both.shape == (3, 4) and (both == 3 * rows).all(), both
    flat, lens = worker.push_pull_async(uneven, numpy.ones(3, FLOAT), [1, 2]).wait(), [1, 2]
    assert flat.tolist() == [2, 3, 4], flat


def mistakes(worker, first):
    """Each says what is expected, and where it is wrong."""
    keys, values = keys_of(first, first + 1), numpy.ones((2, 4), FLOAT)
    raises(TypeError, lambda: worker.push(keys, numpy.ones((2, 4))), "an array of float32 is needed, this one holds float64")
    raises(TypeError, lambda: worker.push(keys, values.astype(numpy.int32)), "an array of float32 is needed", "int32")
    raises(TypeError, lambda: worker.pull(keys, values.astype(numpy.float16)), "an array of float32 is needed", "float16")
    raises(TypeError, lambda: tally.kv.Worker(dtype=numpy.int32).push(keys, values), "an array of int32 is needed", "float32")
    raises(TypeError, lambda: worker.push(keys, numpy.ones((4, 2), FLOAT).T), "not contiguous", "ascontiguousarray")
    raises(TypeError, lambda: worker.push(keys.astype(FLOAT), values), "whole numbers", "float32")
    raises(ValueError, lambda: worker.push(keys.reshape(2, 1), values), "(2, 1)")
    raises(TypeError, lambda: tally.kv.Worker(dtype=numpy.float64), "float32 or int32", "float64")
    frozen = values.copy()
    frozen.flags.writeable = False
    worker.push(keys, frozen)
    raises(TypeError, lambda: worker.pull(keys, frozen), "read-only")
    for wrong, index, *words in (
            (lambda: worker.push(keys_of(1, 1), values), 1, "key 1 (1) is there twice"),
            (lambda: worker.push(keys_of(5, 4), values), 1, "below the one before it (5)", "ascending"),
            (lambda: worker.pull(numpy.array([-3, 4])), 0, "key 0 (-3) is below 0"),
            (lambda: worker.push(keys, values, lens=[4]), 1, "1 lens for 2 keys"),
            (lambda: worker.push(keys, values, lens=[4, 5]), 1, "9 values"),
            (lambda: worker.push(keys, numpy.ones(3, FLOAT)), None, "3 values are not as many for each of 2 keys"),
            (lambda: worker.push([], values), None, "no keys")):
        error = raises(tally.InvalidArgument, wrong, *words)
        assert error.index == index and error.name == "TALLY_INVALID_ARGUMENT", (error, error.index)
    # What a server refuses, of the second of two.
    error = raises(tally.Refused, lambda: worker.push(keys_of(5_000_000 + first, 2**64 - 1), numpy.ones(2, FLOAT)), "server 1")
    assert error.index == 1, error.index
    raises(tally.InvalidArgument, lambda: worker.pull(keys, numpy.zeros(5, FLOAT)), "room for 5 values, and 8 came")
    raises(tally.InvalidArgument, tally.kv.start, "begun already")


def asynchronous(worker, first):
    """Requests in flight, whose arrays nobody else holds; waits that end; the GIL is free meanwhile."""
    keys = keys_of(*range(first + 100, first + 100 + 500))
    begun = [worker.push_async(keys.copy(), numpy.ones((500, 8), FLOAT)) for _ in range(50)]
    gc.collect()
    pulled = worker.pull_async(keys)
    del keys
    assert (pulled.wait() == 50).all() and pulled.done() and all(each.done() for each in begun)
    assert (pulled.wait(0) == 50).all(), "again is fine"
    threads = [threading.Thread(target=worker.pull, args=(keys_of(first),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def fork(worker, first):
    """The child has no worker, may end, and the parent goes on."""
    other = tally.kv.Worker()
    pid = os.fork()
    if pid == 0:
        raises(tally.Error, lambda: worker.pull([first]), "belongs to process")
        raises(tally.Error, tally.kv.rank, "call tally.kv.start()")
        del other  # nobody waits for threads that this process does not have
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert worker.pull([first]).shape == (1, 4)


def everything():
    raises(tally.Error, tally.kv.rank, "call tally.kv.start()")
    raises(tally.Error, tally.kv.Worker, "call tally.kv.start()")
    # Who only sums does not load libtally_kv.
    code = "import tally, sys; sys.exit('libtally_kv' in open('/proc/self/maps').read())"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with tally.kv.start():
        rank = tally.kv.rank()
        assert tally.kv.num_workers() == 2 and tally.kv.num_servers() == 2 and rank in (0, 1)
        worker, first = tally.kv.Worker(), 1000 + 100_000 * rank
        worker.push([2**64 - 1], numpy.ones(4, FLOAT))
        round_trips(worker, first)
        mistakes(worker, first)
        asynchronous(worker, first)
        fork(worker, first)
        other = tally.kv.Worker(dtype=numpy.int32)
        raises(tally.Error, lambda: other.push([first], numpy.ones(4, numpy.int32)), "type")
        tally.kv.barrier()
        assert tally.kv.statistics()["frames_sent"] > 0
    raises(tally.Error, lambda: worker.pull([first]))
    print("all good")


def tables():
    """Two workers' rounds against numpy's sums, on servers and through a box; wrong arguments; an optimiser that forgets."""
    with tally.kv.start():
        rank, width = tally.kv.rank(), 3
        most_hot = int(os.environ.get("MOST_HOT", "0"))
        raises(ValueError, lambda: tally.kv.Table(width, "adam"), "'adam' is neither sum nor sgd")
        raises(tally.InvalidArgument, lambda: tally.kv.Table(0), "width")
        draws = [numpy.random.default_rng(7 + each) for each in range(2)]  # of both, so that each knows the sums
        with tally.kv.Table(width, "sgd", 0.5, most_hot=most_hot, every=16) as table:
            expected = numpy.zeros((100, width), FLOAT)
            for _ in range(40):
                batches = [numpy.unique(numpy.minimum(draw.zipf(1.3, 20) - 1, 99)) for draw in draws]
                gradients = [draw.integers(-3, 4, (len(keys), width)).astype(FLOAT) for draw, keys in zip(draws, batches)]
                assert (table.pull(batches[rank]) == expected[batches[rank]]).all()
                table.push(batches[rank], gradients[rank])
                for keys, gradient in zip(batches, gradients):
                    expected[keys] -= FLOAT(0.5) * gradient
            out = numpy.empty((100, width), FLOAT)
            assert table.pull(numpy.arange(100), out) is out and (out == expected).all()
            keys, ones = keys_of(1, 2), numpy.ones((2, width), FLOAT)
            raises(tally.InvalidArgument, lambda: table.push(keys, ones.T.copy()), "2 rows of width 3 have shape (2, 3), not (3, 2)")
            raises(TypeError, lambda: table.push(keys, ones.astype(numpy.int32)), "an array of float32 is needed", "int32")
            raises(TypeError, lambda: table.push(keys, ones.astype(numpy.float64)), "an array of float32 is needed", "float64")
            for wrong in (numpy.nan, -numpy.inf, 9e37):
                error = raises(tally.Error, lambda: table.push(keys, ones * FLOAT([[1], [wrong]])), "gradients[3] is", "finite")
                assert error.name == "TALLY_QUANTISE" and error.index == 1, (error.name, error.index)
            error = raises(tally.InvalidArgument, lambda: table.push(keys_of(2, 1), ones), "below the one before it")
            assert error.index == 1, error.index
            table.push([], numpy.empty((0, width), FLOAT))
            counted = table.statistics()
            assert counted["rounds"] == 41 and (counted["hot_pairs"] > 0) == (most_hot > 0) and counted["cold_pairs"] > 0, counted
        table.close()  # again is fine
        raises(tally.Error, lambda: table.pull(keys), "closed by this program")
        with tally.kv.Table(width, "sgd", 0.5, most_hot=0, every=16) as again:  # hot rows are back
            assert (again.pull(numpy.arange(100)) == expected).all()
        raises(ValueError, lambda: tally.kv.Table(width, age=0.0001), "less than a millisecond")
        raises(tally.InvalidArgument, lambda: tally.kv.Table(width, number=1, least=1), "needs an age")
        with tally.kv.Table(width, number=1, most_hot=most_hot, age=0.01, least=1) as table:  # one pushes more often
            pushes = 20 if rank else 5
            for _ in range(pushes):
                table.push(keys, ones)
            rounds = table.statistics()["rounds"]
            assert table.pull(keys).min() >= pushes and (rounds >= pushes if most_hot else rounds == pushes), rounds
        with tally.kv.Table(width, number=1, most_hot=0) as table:
            assert (table.pull(keys) == 25).all(), table.pull(keys)
    print("all good")


def left():
    """An exception gets out of one worker's program: its table is over, and the other's push says who left."""
    with tally.kv.start():
        table = tally.kv.Table(1)
        table.push([tally.kv.rank()], numpy.ones((1, 1), FLOAT))
        if tally.kv.rank() == 0:
            raises(KeyError, lambda: leave(table), "oops")
        else:
            raises(tally.Error, lambda: table.push([1], numpy.ones((1, 1), FLOAT)), "worker 0")
            table.close()
    print("all good")


def leave(table):
    with table:
        raise KeyError("oops")


def interrupted():
    """Ctrl-C ends a wait for a worker that does not come; the other one hears that this one is lost."""
    with tally.kv.start():
        tally.kv.Worker().push([1], numpy.ones(1, FLOAT))
        if tally.kv.rank() == 0:
            threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
            tally.kv.barrier()
        else:
            sys.stdin.readline()
            raises(tally.Error, tally.kv.barrier, "worker 0", "is lost")
            print("all good")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
