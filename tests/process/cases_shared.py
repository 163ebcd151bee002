"""Jobs that share slots, far fewer than they could use: whoever wins and loses them, every sum is exact, and the
counters add up."""
from box import Job, cpus_of_ours, run_box
from lab import Skipped, case
from programs import wait_until
from workers import UNTIL_TOLD, finish, go_on, start_job, total

# Of windows of 256 chunks.
FEW = 8


def busy_until_told(job, size=50000):
    """At work until go_on(), also on a machine that is faster, or busier, than others."""
    return f"--sizes {size},353 --gap 5 --seed {job.first_port + 1} {UNTIL_TOLD}"


def wait_for_middle(workers, iteration=3):
    for worker in workers:
        worker.wait_for("iteration", iteration)


def wait_until_slots_are_free(box, *names):
    """What nobody will complete any more is swept: 1 s at most after it was touched last."""
    def free():
        counted = box.counters()
        return all(counted.slots[name]["filling"] == 0 for name in names)

    wait_until(f"the slots of {' and '.join(names)} to be free", free)


def check_books(counted, jobs):
    """jobs: (job, the workers of each of its lives) that have ended. What one job takes another loses; every chunk was
    completed, and again only for workers that were impatient."""
    def sum_of(column):
        return sum(line[column] for line in counted.slots.values())

    assert sum_of("swaps") == sum_of("evicted"), counted.text
    assert sum_of("filling") == 0, counted.text
    assert counted.cores[0]["server"]["completed"] == sum_of("served"), counted.text
    for job, *lives in jobs:
        line = counted.jobs[job.name]
        results = sum(workers[0].statistics()["results"] for workers in lives)
        again = sum(total(workers, "retransmissions") for workers in lives)
        assert results <= line["results"] <= results + again, counted.text
        assert line["contributions"] >= job.workers * results, counted.text


def three_classes(lab, size, **options):
    """Two bulk jobs keep each other and an urgent one company."""
    # Small packets: many of them for little work. The weight: no share of its own keeps the urgent one small.
    jobs = [Job("low", workers=3, discipline="shared", elements=32, priority=10),
            Job("normal", workers=3, discipline="shared", elements=32),
            Job("urgent", discipline="shared", elements=32, priority=254, weight=1000)]
    box = run_box(lab, jobs, shared_slots=FEW, **options)
    bulk = [start_job(box, job, busy_until_told(job, size)) for job in jobs[:2]]
    for workers in bulk:
        wait_for_middle(workers)
    # Until it has met them: on a machine with other things to do it may find the slots free.
    urgent = []
    while len(urgent) < 10 and (not urgent or before["swaps"] <= before["evicted"]):
        urgent.append(start_job(box, jobs[2], f"--sizes {size} --iterations 10"))
        finish(urgent[-1])
        before = box.counters().slots["urgent"]
    # One chunk at a time: no chunk of its own takes its slot, and no other may.
    single = start_job(box, jobs[2], "--sizes 32 --dtype int32 --iterations 50")
    finish(single)
    after = box.counters().slots["urgent"]
    assert after["claims"] + after["swaps"] > before["claims"] + before["swaps"], (before, after)
    assert after["evicted"] == before["evicted"], (before, after)
    for workers in bulk:
        go_on(workers)
        finish(workers)
    wait_until_slots_are_free(box, *(job.name for job in jobs))
    return box.stop(), [(jobs[0], bulk[0]), (jobs[1], bulk[1]), (jobs[2], single, *urgent)]


@case("address", "thread")
def three_classes_share_few_slots(lab):
    """Class 0, 1 and 3 over 8 slots: low classes lose slots to higher ones, never the other way round."""
    counted, jobs = three_classes(lab, size=50000)
    check_books(counted, jobs)
    low, normal, urgent = (counted.slots[job.name] for job, *_ in jobs)
    assert (low["class"], normal["class"], urgent["class"]) == (0, 1, 3), counted.text
    # What a job takes from itself is in both of its figures.
    assert low["evicted"] >= low["swaps"] > 0 and low["denied"] > 0 and normal["evicted"] > 0, counted.text
    assert urgent["swaps"] > urgent["evicted"], counted.text


@case("address")
def three_classes_with_loss(lab):
    """The same with 1 % of the frames lost: what was taken away, swept or lost is repaired."""
    counted, jobs = three_classes(lab, size=2000, loss="1%")
    assert counted.core("lost_on_purpose_in") > 0 and counted.core("lost_on_purpose_out") > 0, counted.text
    check_books(counted, jobs)


@case("address")
def all_disciplines_at_once(lab):
    """A pool, and one job of each discipline that shares slots, over the same slots."""
    jobs = [Job(name, discipline=name) for name in ("pool", "shared", "fcfs", "preemptive")]
    box = run_box(lab, jobs, shared_slots=FEW)
    workers = [start_job(box, job, "--sizes 50000,353 --iterations 5") for job in jobs]
    bits = [finish(some) for some in workers]
    assert all(one == bits[0] for one in bits), "the same values, other sums"
    wait_until_slots_are_free(box, *(job.name for job in jobs[1:]))
    check_books(box.stop(), list(zip(jobs, workers)))


@case()
def shared_slots_on_two_cores(lab):
    """The slots are divided between the cores, and so is the server."""
    if len(cpus_of_ours()) < 2:
        raise Skipped("needs two CPUs; this process may use one")
    jobs = [Job("one", discipline="shared"), Job("other", discipline="shared")]
    box = run_box(lab, jobs, data_cores=2, shared_slots=FEW)
    workers = [start_job(box, job, "--sizes 50000,353 --iterations 5") for job in jobs]
    assert finish(workers[0]) == finish(workers[1])
    counted = box.stop()
    assert all(core["server"]["completed"] > 0 for core in counted.cores), counted.text


@case("address", "thread")
def sharing_worker_killed(lab):
    """kill -9 under load: its job is told, the other goes on, and the dead job's slots are free again."""
    jobs = [Job("dies", workers=3, discipline="shared", lease="3s"), Job("lives", discipline="shared")]
    box = run_box(lab, jobs, shared_slots=FEW)
    lives = start_job(box, jobs[1], busy_until_told(jobs[1]))
    dies = start_job(box, jobs[0], "--sizes 20000 --iterations 100000")
    wait_for_middle(dies)
    wait_for_middle(lives)
    dies[1].program.kill()
    for worker in (dies[0], dies[2]):
        error = worker.error()
        assert error["code"] == "aborted" and "rank 1" in error["text"], error
        assert worker.program.wait() == 1
    wait_until_slots_are_free(box, "dies")
    assert all(worker.program.runs() for worker in lives)
    finish(start_job(box, jobs[0], "--sizes 20000 --iterations 2"))
    go_on(lives)
    finish(lives)
    assert all(worker.statistics()["epochs"] == 1 for worker in lives)
    wait_until_slots_are_free(box, "dies", "lives")
    counted = box.stop()
    assert sum(line["swaps"] - line["evicted"] for line in counted.slots.values()) == 0, counted.text


@case("address")
def box_killed_under_sharing_jobs(lab):
    """kill -9 of the box: slots, ledgers and the server's sums are lost, and no bit of a result."""
    jobs = [Job("low", discipline="shared", priority=10), Job("high", discipline="shared", priority=254)]
    box = run_box(lab, jobs, shared_slots=FEW)
    workers = [start_job(box, job, busy_until_told(job)) for job in jobs]
    for some in workers:
        wait_for_middle(some)
    box.kill()
    box.start()
    for some in workers:
        go_on(some)
        finish(some)
        assert all(worker.statistics()["epochs"] == 2 for worker in some)
        assert all(worker.statistics()["generations"] == 1 for worker in some)
    wait_until_slots_are_free(box, "low", "high")
    box.stop()
