"""Conjugate gradients by mpi4py, floats of 32 bits: the same solution through a box as without."""
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
n = 40_000  # of a tridiagonal system, of which each rank adds its rows
first, last = rank * n // size, (rank + 1) * n // size


def times(x):
    """A x: the rows of this rank, and a sum that is everybody's."""
    mine = numpy.zeros(n, numpy.float32)
    rows = numpy.arange(first, last)
    mine[rows] = 4 * x[rows]
    mine[rows[rows > 0]] -= x[rows[rows > 0] - 1]
    mine[rows[rows < n - 1]] -= x[rows[rows < n - 1] + 1]
    out = numpy.empty(n, numpy.float32)
    world.Allreduce(mine, out)
    return out


b = (numpy.arange(n) % 7).astype(numpy.float32)
x = numpy.zeros(n, numpy.float32)
r = b - times(x)
p = r.copy()
for _ in range(30):
    ap = times(p)
    before = float(r.astype(numpy.float64) @ r)
    step = before / float(p.astype(numpy.float64) @ ap)
    x += numpy.float32(step) * p
    r -= numpy.float32(step) * ap
    p = r + numpy.float32(float(r.astype(numpy.float64) @ r) / before) * p
left = float(numpy.abs(b - times(x)).max())
assert left < 1e-4, left
if rank == 0:
    print(f"all good: {left:.1e} left")
