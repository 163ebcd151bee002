"""PyTorch over a box: the hook, the backend, and gloo beside them."""
import json
import re
import socket

from box import Job, run_box
from lab import case
from programs import wait_until
from python_ranks import PYTHON, SCRIPTS, expect_good, need_torch, package, rank_of, variables_of


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def start(lab, box, job, *arguments, environment=None):
    """All ranks of train.py, which meet at a port of loopback."""
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(job.workers),
            "GLOO_SOCKET_IFNAME": "lo", **(environment or {})}
    return [rank_of(box, job, rank, "train.py", *arguments, environment={**meet, "RANK": str(rank)})
            for rank in range(job.workers)]


def trained(programs):
    """What the ranks printed; all have the same parameters after every step."""
    results = []
    for program in programs:
        code = program.wait(240)
        assert code == 0, f"{program.name} ended with {code}:\n{program.complained()}"
        results.append(json.loads(program.said().splitlines()[-1]))
    for result in results:
        assert result["digests"] == results[0]["digests"], "ranks have different parameters"
    return results


def box_of(lab, workers=2, lease="20s", **options):
    need_torch()
    job = Job(workers=workers, lease=lease)
    return run_box(lab, [job], **options), job


def all_good(lab, what, **options):
    """A function of train.py at all ranks."""
    box, job = box_of(lab, **options)
    expect_good(start(lab, box, job, what))
    box.stop()


@case()
def torch_hook_and_backend_give_the_same_bits(lab):
    """Also under loss and corruption, and losses are gloo's."""
    box, job = box_of(lab)
    gloo = trained(start(lab, box, job, "gloo", "50"))
    hook = trained(start(lab, box, job, "hook", "50"))
    assert hook[0]["fallbacks"] == {} and hook[0]["report"].startswith("tally: 100.0 %"), hook[0]["report"]
    backend = trained(start(lab, box, job, "backend", "50"))
    assert backend[0]["report"].startswith("tally: 100.0 %"), backend[0]["report"]
    box.stop()
    assert hook[0]["digests"] == backend[0]["digests"]
    for rank in range(job.workers):
        for ours, theirs in zip(hook[rank]["losses"], gloo[rank]["losses"]):
            assert abs(ours - theirs) <= 1e-5, (ours, theirs)
    assert hook[0]["losses"][-1] < 0.9 * hook[0]["losses"][0], "it learned nothing"
    box = run_box(lab, [job], impair="loss: 1%, corrupt: 0.1%")
    assert trained(start(lab, box, job, "hook", "50"))[0]["digests"] == hook[0]["digests"]
    box.stop()


@case()
def torch_outlives_a_killed_box(lab):
    """kill -9 of tallyd in the middle: the same bits as without."""
    box, job = box_of(lab)
    expected = trained(start(lab, box, job, "hook", "150"))[0]["digests"]
    box.stop()
    box.start()
    ranks = start(lab, box, job, "hook", "150")
    box.wait_for_log("running: generation")
    box.kill()
    assert all(rank.runs() for rank in ranks)
    box.start()
    assert trained(ranks)[0]["digests"] == expected
    box.stop()


@case()
def torch_skips_the_same_steps(lab):
    """A gradient that is infinite at one rank is no number at all, and every rank leaves the step out, as with gloo."""
    box, job = box_of(lab)
    gloo = trained(start(lab, box, job, "gloo", "8", "infinite=3"))
    hook = trained(start(lab, box, job, "hook", "8", "infinite=3"))
    assert [one["skipped"] for one in (*gloo, *hook)] == [[3]] * 4, (gloo, hook)
    box.stop()


@case()
def torch_collectives_of_the_backend(lab):
    """Everything that torch.distributed asks of a backend, through the box or by gloo."""
    all_good(lab, "collectives", workers=3)


@case()
def torch_takes_no_sum_that_lacks_ranks(lab):
    """A job with stragglers: only the hook's means may lack one, and everything else says so at every rank."""
    need_torch()
    job = Job(workers=2, lease="30s", stragglers="timeout: 2s, min: 1")
    box = run_box(lab, [job])
    expect_good(start(lab, box, job, "late"))
    box.stop()


@case()
def torch_without_a_box(lab):
    """Nobody answers: gloo does it all, and says so once; with TALLY_REQUIRE it is an error."""
    box, job = box_of(lab)
    box.stop()
    lonely = {"TALLY_JOIN_TIMEOUT": "1"}
    ranks = start(lab, box, job, "hook", "3", environment=lonely)
    results = trained(ranks)
    assert set(results[0]["fallbacks"]) == {"no box"}, results[0]
    assert ranks[0].complained().count("everything goes by the ring") == 1, ranks[0].complained()
    off = trained(start(lab, box, job, "hook", "3", environment={"TALLY_DISABLE": "1"}))
    assert off[0]["digests"] == results[0]["digests"]
    for rank in start(lab, box, job, "hook", "3", environment={**lonely, "TALLY_REQUIRE": "1"}):
        assert rank.wait(240) == 1 and "the box is required" in rank.complained(), rank.complained()


@case()
def torch_buckets_that_are_copied_first(lab):
    """A stand-in for a GPU whose copies come late: the same bits, and the same order at all ranks."""
    all_good(lab, "staged")


@case()
def torch_takes_a_ring_that_is_faster(lab):
    all_good(lab, "probe")


@case()
def torch_sums_of_arrays_that_differ(lab):
    """One rank's tensor is longer: an error at both, that says so."""
    all_good(lab, "sizes")


@case()
def torch_ends_behind_what_is_chained(lab):
    """A program that just ends, beside threads in torch: no signal ends it, and what was chained to a sum is done. A
    child of fork() has such threads of its own."""
    box, job = box_of(lab)
    ranks = start(lab, box, job, "ends")
    expect_good(ranks)
    assert all("chained to its end" in rank.said() for rank in ranks), ranks[0].said()
    box.stop()


@case()
def torch_without_the_box_that_it_had(lab):
    """kill -9 of a box that does not come back: the step raises within the lease and a second, and every later one."""
    box, job = box_of(lab, lease="3s")
    ranks = start(lab, box, job, "lost")
    for rank in ranks:
        wait_until("the first sums", lambda: "ready" in rank.said(), 240)  # pylint: disable=cell-var-from-loop
    box.kill()
    expect_good(ranks)


@case()
def torch_ranks_that_are_spawned(lab):
    """mp.spawn instead of a launcher: the same bits."""
    box, job = box_of(lab)
    expected = trained(start(lab, box, job, "hook", "20"))[0]["digests"]
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(job.workers), "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [{**variables_of(box, job, rank), **meet, "RANK": str(rank)} for rank in range(job.workers)]
    program = lab.run("spawning", [PYTHON, str(SCRIPTS / "train.py"), "spawn", "hook", "20"], {**package(), "RANKS": json.dumps(ranks)})
    assert program.wait(240) == 0, program.complained()
    # One line each, but they share a file.
    spawned = [json.loads(digests) for digests in re.findall(r'"digests": (\[[^]]*\])', program.said())]
    assert spawned == [expected] * job.workers, program.said()
    box.stop()


@case()
def torch_names_the_rank_that_died(lab):
    """kill -9 of a rank: the other's step raises with its name, in the lease and a second."""
    box, job = box_of(lab, lease="3s")
    for way in ("hook", "backend"):
        survivor, victim = start(lab, box, job, way, "500", "die=5")
        assert victim.process.wait(60) == -9
        assert survivor.wait() == 1 and "rank 1 at" in survivor.complained(), survivor.complained()
    box.stop()
