"""A rank that trains a small CNN on made-up pictures; run by the cases of tests/process/cases_torch.py.

    train.py WAY STEPS [OPTION=VALUE...]: WAY is gloo, hook or backend. Prints one line of JSON: losses, a digest of the
    parameters after every step, what went through the box."""
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import queue
import sys
import threading
import time
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tally.torch

dist._DEFAULT_FIRST_BUCKET_BYTES = 50_000  # several buckets, though the model is small


def model_of(seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Flatten(), torch.nn.Linear(16 * 7 * 7, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))


def batch_of(rank, step):
    """Pictures of ten kinds: a bright stripe in another place each."""
    generator = torch.Generator().manual_seed(1000 * step + rank)
    kinds = torch.randint(10, (16,), generator=generator)
    pictures = torch.rand(16, 1, 28, 28, generator=generator)
    for picture, kind in zip(pictures, kinds):
        picture[0, 2 * kind:2 * kind + 3] += 1
    return pictures, kinds


def digest(model):
    return hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()[:16]


def meet(backend):
    """All ranks; (rank, world)."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(backend, rank=rank, world_size=world)
    return rank, world


def train(way, steps, options):
    rank, world = meet("tally" if way == "backend" else "gloo")
    torch.set_num_threads(1)
    model = DistributedDataParallel(model_of(), bucket_cap_mb=0.2)
    state = None
    if way == "hook":
        state = tally.torch.State(wire=options.get("wire", "shortest"))
        model.register_comm_hook(state, tally.torch.hook)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    losses, digests, skipped = [], [], []
    scale = 2.0 ** 14
    for step in range(steps):
        pictures, kinds = batch_of(rank, step)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(pictures), kinds)
        if "infinite" in options:
            # What GradScaler does, which there is for CUDA only: a step whose gradients are not finite is left out.
            (loss * (float("inf") if step == int(options["infinite"]) and rank == 1 else scale)).backward()
            finite = all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())
            if not finite:
                skipped.append(step)
                scale /= 2
                continue
            for p in model.parameters():
                p.grad.div_(scale)
        else:
            loss.backward()
        optimiser.step()
        losses.append(loss.item())
        digests.append(digest(model))
        if "die" in options and rank == 1 and step == int(options["die"]):
            os.kill(os.getpid(), 9)
    print(json.dumps({"losses": losses, "digests": digests, "skipped": skipped, "report": tally.torch.report(),
                      "fallbacks": state.fallbacks if state else {}}), flush=True)
    if state is not None and state.worker is not None:
        state.worker.leave()
    dist.destroy_process_group()


def collectives():
    """Everything a backend does, beside gloo's answers."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dist.init_process_group("tally", rank=rank, world_size=world)
        for kind in (torch.float32, torch.int32, torch.float16, torch.bfloat16, torch.float64, torch.int64):
            tensor = (torch.arange(100) % 7 + rank).to(kind)
            dist.all_reduce(tensor)
            assert (tensor == sum((torch.arange(100) % 7 + r) for r in range(world)).to(kind)).all(), kind
        tensor = torch.full((3,), float(rank))
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        assert (tensor == world - 1).all()
        tensor = torch.full((4,), float(rank))
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        assert (tensor == (world - 1) / 2).all()
        both = [torch.full((5,), 1.0), torch.full((7,), 2.0)]
        dist.all_reduce_coalesced(both)
        assert (both[0] == world).all() and (both[1] == 2 * world).all()
        square = torch.ones(4, 4)[:, ::2]
        dist.all_reduce(square)
        assert (square == world).all() and not square.is_contiguous()
        for kind in (torch.float32, torch.float64, torch.uint8, torch.bool):
            tensor = torch.full((9,), rank).to(kind)
            dist.broadcast(tensor, 1)
            assert (tensor == torch.ones(9).to(kind)).all(), kind
            mine = torch.full((3,), rank).to(kind)
            parts = [torch.zeros(3).to(kind) for _ in range(world)]
            dist.all_gather(parts, mine)
            for r, part in enumerate(parts):
                assert (part == torch.full((3,), r).to(kind)).all(), (kind, parts)
        flat = torch.zeros(2 * world)
        dist._all_gather_base(flat, torch.full((2,), float(rank)))
        assert flat.tolist() == [float(r) for r in range(world) for _ in range(2)], flat
        out = torch.zeros(2)
        dist.reduce_scatter(out, [torch.full((2,), float(r)) for r in range(world)])
        assert (out == world * rank).all(), out
        whole = torch.zeros(2, dtype=torch.int32)
        dist.reduce_scatter(whole, [torch.full((2,), r, dtype=torch.int32) for r in range(world)])
        assert (whole == world * rank).all(), whole
        wide = [torch.ones(5, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
        dist.all_reduce_coalesced(wide)
        assert (wide[0] == world).all() and (wide[1] == world).all()
        with torch.no_grad():
            parameter = torch.nn.Parameter(torch.full((2, 4), float(rank)).t())
            dist.broadcast(parameter, 1)
            assert (parameter == 1).all() and parameter.grad_fn is None
        # What stands behind a Future may wait for another operation.
        first = torch.ones(10)
        nested = dist.all_reduce(first, async_op=True).get_future().then(
            lambda f: dist.all_reduce(f.value()[0] * 2, async_op=True).get_future().wait()[0])
        assert (nested.wait() == 2 * world * world).all()
        dist._reduce_scatter_base(out, torch.arange(2.0 * world))
        assert out.tolist() == [world * 2.0 * rank, world * (2.0 * rank + 1)], out
        objects = [None] * world
        dist.all_gather_object(objects, {"rank": rank})
        assert objects == [{"rank": r} for r in range(world)], objects
        gathered = [torch.zeros(1) for _ in range(world)] if rank == 0 else None
        dist.gather(torch.ones(1) * rank, gathered)
        if rank == 0:
            dist.send(torch.ones(2), 1)
        elif rank == 1:
            dist.recv(torch.zeros(2), 0)
        dist.barrier()
        tensor = torch.ones(10)
        work = dist.all_reduce(tensor, async_op=True)
        assert work.wait() and work.is_completed() and (tensor == world).all()
        if rank == 0:
            work = dist.barrier(async_op=True)
            try:
                work.wait(datetime.timedelta(seconds=0.1))
                raise AssertionError("a barrier without the others")
            except TimeoutError as error:
                assert "goes on" in str(error), error
            work.wait()
        else:
            time.sleep(0.5)
            dist.barrier()
        # A group of its own: over memif there is no port for it, so it is gloo's, and says so.
        group = dist.new_group([0, 1])
        if rank < 2:
            tensor = torch.ones(3)
            dist.all_reduce(tensor, group=group)
            assert (tensor == 2).all()
    said = [str(w.message) for w in caught if str(w.message).startswith("tally: ")]
    if rank == 0:
        for reason in ("float64", "int64", "MAX"):
            assert sum(reason in text for text in said) == 1, said
    print(tally.torch.report())
    dist.destroy_process_group()
    print("all good")


class Pictures(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((1, 28, 28), i / 64), i % 10


class Branches(torch.nn.Module):
    """A layer that is used in two of four steps only."""

    def __init__(self):
        super().__init__()
        self.always, self.sometimes, self.steps = torch.nn.Linear(784, 10), torch.nn.Linear(10, 10), 0

    def forward(self, pictures):
        self.steps += 1
        out = self.always(pictures.flatten(1))
        return self.sometimes(out) if self.steps % 4 < 2 else out


def habits():
    """What training scripts do with DDP; all ranks end with the same parameters, and with gloo's."""
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    state = tally.torch.State(fallback="never")
    ended = []
    for ours in (True, False):
        torch.manual_seed(3)
        model = DistributedDataParallel(Branches(), find_unused_parameters=True)
        if ours:
            model.register_comm_hook(state, tally.torch.hook)
        sampler = torch.utils.data.distributed.DistributedSampler(Pictures(), shuffle=False)
        loader = torch.utils.data.DataLoader(Pictures(), 8, sampler=sampler, num_workers=2)  # forks, with a worker open
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        for pictures, kinds in loader:
            with model.no_sync():  # accumulates
                torch.nn.functional.cross_entropy(model(pictures), kinds).backward()
            torch.nn.functional.cross_entropy(model(pictures), kinds).backward()
            optimiser.step()
            optimiser.zero_grad()
        with model.join():  # ranks with different numbers of batches
            for _ in range(1 + rank % 2):
                model(torch.ones(4, 784)).sum().backward()
                optimiser.step()
                optimiser.zero_grad()
        ended.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
    everybodys = [torch.empty_like(ended[0]) for _ in range(world)]
    dist.all_gather(everybodys, ended[0])
    assert all(torch.equal(one, ended[0]) for one in everybodys)
    assert torch.allclose(ended[0], ended[1], atol=1e-5), (ended[0] - ended[1]).abs().max()
    assert state.operations >= 3 and not state.fallbacks, (state.operations, state.fallbacks)
    state.worker.leave()
    dist.destroy_process_group()
    print("all good")


def late():
    """Rank 1 comes when the box has summed without it: a sum of both is none, at either rank; the hook's mean will do."""
    rank, world = meet("tally")
    for what in (lambda t: dist.all_reduce(t), lambda t: dist.broadcast(t, 1)):
        dist.barrier()
        if rank == 1:
            time.sleep(5)
        try:
            what(torch.ones(1000))
        except RuntimeError as error:
            assert "lack ranks" in str(error), error
        else:
            raise AssertionError("a sum without rank 1 was taken for one")
    dist.barrier()
    model = DistributedDataParallel(torch.nn.Linear(100, 10))
    model.register_comm_hook(tally.torch.State(fallback="never"), tally.torch.hook)
    dist.barrier()
    if rank == 1:
        time.sleep(5)
    model(torch.ones(4, 100)).sum().backward()
    assert torch.isfinite(model.module.weight.grad).all()
    dist.barrier()
    dist.destroy_process_group()
    print("all good")


class LateCopies:
    """A device whose copies come late, as a GPU's do behind what it still computes: tensors of the CPU stand for its own. It
    proves that nobody looks at a home too early, and nothing of CUDA."""

    def __init__(self, rank):
        self._late, self._queue, self.brought, self.back = 0.02 * rank, queue.SimpleQueue(), 0, 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            what, over = self._queue.get()
            time.sleep(self._late)
            what()
            over.set()

    def _copy(self, to, source):
        over = threading.Event()
        over.synchronize = over.wait
        self._queue.put((lambda: to.copy_(source), over))
        return over

    def bring(self, tensor):
        self.brought += 1
        home = torch.full_like(tensor, float("nan"))
        return home, self._copy(home, tensor)

    def bring_back(self, home, tensor):
        self.back += 1
        self._copy(tensor, home).wait()  # the CPU has no stream that would wait instead


def staged():
    """DDP whose buckets are copied; between them what needs no copy, in the same order at all ranks."""
    rank, world = meet("tally")
    state = tally.torch.State(fallback="never")
    late = LateCopies(rank)
    given = [batch_of(rank, step)[0] for step in range(6)]

    def digests(copies):
        state.route.staging = copies
        model = DistributedDataParallel(model_of(), bucket_cap_mb=0.2)
        behind = []

        def hook(state, bucket):
            future = tally.torch.hook(state, bucket)
            time.sleep(0.01 * (1 - rank))  # rank 0's bucket has begun
            behind.append(state.route.issue(lambda: state.worker.allreduce_async(torch.ones(10))))
            return future
        model.register_comm_hook(state, hook)
        made = []
        for pictures in given:
            model(pictures).square().mean().backward()
            made.append([p.grad.clone() for p in model.parameters()])
            model.zero_grad()
        for operation in behind:
            operation.wait()
        return made
    plain, copied = digests({}), digests({"cpu": late})
    assert late.brought == late.back > len(given), (late.brought, late.back)
    for one, other in zip(plain, copied):
        assert all(torch.equal(a, b) for a, b in zip(one, other))
    # What CUDA is asked for is there, in this torch too.
    for name in ("Stream", "stream", "current_stream"):
        assert hasattr(torch.cuda, name), name
    for name in ("wait_stream", "record_event"):
        assert hasattr(torch.cuda.Stream, name), name
    assert hasattr(torch.cuda.Event, "synchronize") and hasattr(torch.Tensor, "record_stream")
    dist.barrier()
    dist.destroy_process_group()
    # All that waits for its copy hears that the worker is closed.
    waiting = [state.route.reduce([torch.ones(5000)], mean=True)[0] for _ in range(3)]
    state.worker.close()
    for operation in waiting:
        try:
            operation.wait(60)
        except tally.Error:
            continue
        raise AssertionError("a sum of a worker that is closed")
    print("all good")


def probe():
    """A box that is slower than the ring is left alone, and that is said; 'never' does not even ask."""
    rank, world = meet("gloo")
    sum_at_once = tally.Worker.allreduce_async

    def sum_late(worker, array, **how):
        assert array[0].count_nonzero() > 0, "a box need not send zeros"
        time.sleep(1)
        return sum_at_once(worker, array, **how)
    tally.Worker.allreduce_async = sum_late
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        state = tally.torch.State(probe=0.1)
        assert state.worker is None and state.route.why_not(torch.ones(10)) == "no box"
        said = [str(w.message) for w in caught]
        assert len(said) == (rank == 0) and all("sums 0.1 MiB in" in text for text in said), said
    assert tally.torch.State(fallback="never", probe=0.1).worker is not None
    os.environ["TALLY_PROBE"] = "0.1"
    assert tally.torch.State(fallback="silent").worker is None
    os.environ["TALLY_PROBE"] = "0.1" if rank == 0 else ""  # not at all ranks: at none
    assert tally.torch.State(fallback="silent").worker is not None
    tally.Worker.allreduce_async = sum_at_once
    slow = dist.group.WORLD.allreduce
    route = tally.torch.State(fallback="never").route

    class SlowRing:
        def allreduce(self, tensors, *options):
            time.sleep(1)
            return slow(tensors, *options)
    assert route._slower(SlowRing(), torch.rand(1000), "int16") == ""
    dist.barrier()
    dist.destroy_process_group()
    print("all good")


def sizes():
    rank, world = meet("tally")
    try:
        for _ in range(3):  # who has less is done with its part of the first
            dist.all_reduce(torch.ones(5000 * (1 + rank)))
    except RuntimeError as error:
        assert "differ" in str(error), error
    else:
        raise AssertionError("sums of arrays that differ")
    print("all good")


def ends():
    """The program ends while what it chained to a sum has not: that comes to its end first."""
    meet("tally")
    dist.all_reduce(torch.ones(5000))
    callers = tally.torch._route._callers
    while callers._idle < 1:
        time.sleep(0.01)
    child = os.fork()
    if child == 0:  # that thread is not here
        called = threading.Event()
        tally.torch._route._callers.call(called.set)
        os._exit(0 if called.wait(30) else 1)
    assert os.waitpid(child, 0)[1] == 0
    begun = threading.Event()

    def chained(_):
        begun.set()
        time.sleep(1)
        print("chained to its end", flush=True)
    dist.all_reduce(torch.ones(5000), async_op=True).get_future().then(chained)
    begun.wait()
    print("all good")


def starved():
    """Seconds in which threads of this process could run and had no CPU, as the kernel counts them."""
    waited = 0
    for thread in pathlib.Path("/proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # it has just ended
            waited += int(thread.read_text(encoding="ascii").split()[1])
    return waited * 1e-9


def lost():
    """Sums until the box is gone."""
    rank, world = meet("tally")
    said, longest = [], 0
    while len(said) < 2:
        begun = time.monotonic() - starved()
        try:
            dist.all_reduce(torch.ones(5000))
            print("ready", flush=True)
        except RuntimeError as error:
            said.append(str(error))
            # A rank that does not run does not take that time for the box's silence.
            longest = max(longest, time.monotonic() - starved() - begun)
    assert all("unreachable" in text for text in said), said
    assert longest < 5, f"{longest} s, and the lease is 3 s"
    print("all good")


def one_of_many(index, arguments, ranks):
    os.environ.update(ranks[index])
    train(arguments[0], int(arguments[1]), {})


def groups():
    """Two pairs of ranks beside all of them; the same pair twice. A rank is in three groups at a time."""
    rank, world = meet("tally")
    pairs = [dist.new_group([0, 2]), dist.new_group([1, 3]), dist.new_group([0, 2])]
    for _ in range(3):
        for number, group in enumerate(pairs):
            if rank % 2 == number % 2:
                tensor = torch.full((5000,), float(rank + number))
                dist.all_reduce(tensor, group=group)
                assert (tensor == 2 + 2 * (rank % 2) + 2 * number).all(), (rank, number, tensor)
        everybody = torch.full((5000,), float(rank))
        dist.all_reduce(everybody)
        assert (everybody == 6).all(), everybody
    print(tally.torch.report())
    dist.destroy_process_group()
    print("all good")


if __name__ == "__main__":
    if sys.argv[1] in ("collectives", "ends", "groups", "habits", "late", "lost", "probe", "sizes", "staged"):
        globals()[sys.argv[1]]()
    elif sys.argv[1] == "spawn":
        every = json.loads(os.environ["RANKS"])
        torch.multiprocessing.spawn(one_of_many, (sys.argv[2:], every), nprocs=len(every))
    else:
        train(sys.argv[1], int(sys.argv[2]), dict(word.split("=") for word in sys.argv[3:]))
