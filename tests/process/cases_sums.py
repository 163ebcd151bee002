"""Right sums: the ways a job can be configured and used when nothing goes wrong."""
from box import Job, cpus_of_ours, run_box
from lab import Skipped, case
from workers import TestWorker, finish, go_on, start_job, total

# About 300 packets of 352 values, an odd rest, a list of arrays, and less than one packet.
MIXED = "--sizes 100000,353+704+1,16,5000"


@case("release", "address", "thread")
def two_jobs_at_once(lab):
    """Two jobs share the box and do not meet."""
    jobs = [Job("floats", workers=3), Job("integers", workers=2)]
    box = run_box(lab, jobs)
    floats = start_job(box, jobs[0], f"{MIXED} --iterations 5")
    integers = start_job(box, jobs[1], f"{MIXED} --iterations 5 --dtype int32 --seed 2")
    assert finish(floats) != finish(integers)
    counted = box.stop()
    for job, workers in zip(jobs, (floats, integers)):
        assert counted.jobs[job.name]["phase"] == "ended", counted.text
        assert counted.jobs[job.name]["results"] >= total(workers, "results") / job.workers


@case("address")
def counters_agree_with_the_workers(lab):
    """What the box counts, at work and in the end, and what the workers count is the same story."""
    job = Job(workers=3)
    box = run_box(lab, [job])
    workers = start_job(box, job, f"{MIXED} --iterations 5 --pause 4")
    for worker in workers:
        worker.wait_for("paused")
    before = box.counters()
    go_on(workers)
    finish(workers)
    after = box.stop()
    results = {worker.statistics()["results"] for worker in workers}
    assert len(results) == 1, f"ranks have different numbers of results: {results}"
    line = after.jobs[job.name]
    # A copy that a worker sends because it was impatient is a duplicate or a repeat, never a contribution.
    assert line["contributions"] == total(workers, "contributions"), f"{after.text}"
    assert line["results"] == results.pop() and line["filling"] == 0, after.text
    assert 0 < before.jobs[job.name]["contributions"] < line["contributions"], before.text
    assert before.jobs[job.name]["phase"] == "running" and before.jobs[job.name]["alive"] == 3
    assert after.core("contributions") == line["contributions"]
    assert after.port("rx_packets") == after.core("frames_in") and after.port("rx_errors") == 0, after.text
    assert before.port("rx_packets") < after.port("rx_packets")
    copies = sum(after.drops.get(job.name, {}).values()) + line["repeats"] + line["relays"]
    assert copies == total(workers, "retransmissions") + total(workers, "queries"), after.text


@case("release", "address", waits=True)
def world_of_one(lab):
    """N = 1: every contribution is its own result."""
    job = Job(workers=1)
    box = run_box(lab, [job])
    finish(start_job(box, job, f"{MIXED} --iterations 3"))
    box.stop()


@case(waits=True)
def two_data_cores_give_the_bits_of_one(lab):
    """The slots are divided between two cores; no bit depends on it."""
    if len(cpus_of_ours()) < 2:
        raise Skipped("needs two CPUs; this process may use one")
    results = []
    for cores in (1, 2):
        job = Job(workers=2)
        box = run_box(lab, [job], data_cores=cores)
        workers = start_job(box, job, f"{MIXED} --iterations 3")
        results.append(finish(workers))
        assert all(worker.events("joined")[0]["shards"] == cores for worker in workers)
        counted = box.stop()
        # memif has no rte_flow, and only a box with several cores has anything to steer.
        assert ("packets are handed over between the cores" in box.daemon.complained()) == (cores == 2)
        assert all(core["contributions"] > 0 for core in counted.cores), counted.text
        assert len(counted.cores) == cores
    assert results[0] == results[1]


@case(waits=True)
def two_data_cores_and_one_queue(lab):
    """A port with one queue: the core that does not read it gets its packets through a ring."""
    if len(cpus_of_ours()) < 2:
        raise Skipped("needs two CPUs; this process may use one")
    job = Job(workers=2)
    box = run_box(lab, [job], data_cores=2, queues=1)
    finish(start_job(box, job, f"{MIXED} --iterations 3"))
    counted = box.stop()
    assert counted.core("handed_over") > 0 and counted.core("sent_for_control_or_other_cores") > 0, counted.text


@case("address")
def jumbo_frames(lab):
    """MTU 9000: 2,224 values in a packet."""
    job = Job(workers=2, elements=2224)
    box = run_box(lab, [job], mtu=9000, device=",bsize=9216")
    workers = start_job(box, job, "--sizes 300000,2225 --iterations 3")
    finish(workers)
    assert all(worker.events("joined")[0]["elements"] == 2224 for worker in workers)
    # 135 data chunks, 2 of the small one, and their priming; with 352 values it would be 850 and more.
    assert all(worker.statistics()["results"] < 1000 for worker in workers)
    box.stop()


@case("release", "address", waits=True)
def multicast_results(lab):
    """One group address for all members instead of a frame for each."""
    job = Job(workers=3, results="multicast")
    box = run_box(lab, [job])
    workers = start_job(box, job, f"{MIXED} --iterations 3")
    finish(workers)
    assert all(worker.events("joined")[0]["multicast"] == 1 for worker in workers)
    box.stop()


@case(waits=True)
def over_ipv6(lab):
    """The longer headers leave room for 336 values."""
    job = Job(workers=2)
    box = run_box(lab, [job], ipv6=True)
    workers = start_job(box, job, f"{MIXED} --iterations 2")
    finish(workers)
    assert all(worker.events("joined")[0]["elements"] == 336 for worker in workers)
    box.stop()


@case(waits=True)
def staged_execution_gives_the_bits_of_the_fused(lab):
    """The execution that checks a chip's rules at every access makes the same sums."""
    results = []
    for execution in ("fused", "staged"):
        job = Job(workers=2)
        box = run_box(lab, [job], execution=execution)
        results.append(finish(start_job(box, job, f"{MIXED} --iterations 2")))
        box.stop()
    assert results[0] == results[1]


@case(waits=True)
def everybody_polls(lab):
    """Neither box nor workers ever sleep, though they are more than the CPUs of a small machine."""
    job = Job(workers=2)
    box = run_box(lab, [job], idle="poll")
    polls = {"TALLY_IDLE": "poll"}
    finish(start_job(box, job, "--sizes 20000,16 --iterations 3", environment=polls))
    counted = box.stop()
    assert counted.core("sleeps") == 0, counted.text


@case("address", "thread")
def three_ranks_in_one_process(lab):
    """Many workers live in one process: one DPDK, a port and a thread each."""
    job = Job(workers=4)
    box = run_box(lab, [job])
    alone = TestWorker(box, job, 0, f"{MIXED} --iterations 3 --lives 2")
    together = TestWorker(box, job, 1, f"{MIXED} --iterations 3 --lives 2", neighbours=(2, 3))
    results = finish([alone, together])
    assert together.crcs(2) == results and together.crcs(3) == results
    box.stop()


@case(waits=True)
def eight_workers(lab):
    """More workers than the machine has cores."""
    job = Job(workers=8)
    box = run_box(lab, [job])
    finish(start_job(box, job, "--sizes 100000,64 --iterations 2"))
    box.stop()


@case("address")
def leaves_and_joins_again(lab):
    """A job that ended is formed anew: by the same processes, and by new ones."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    for _ in range(2):
        workers = start_job(box, job, "--sizes 20000 --iterations 2 --lives 2")
        results = finish(workers)
        assert results[:2] == results[2:], "the same values, other sums"
        generations = [event["generation"] for event in workers[0].events("joined")]
        assert len(set(generations)) == 2, f"a new life is a new generation: {generations}"
    box.stop()
    assert box.daemon.complained().count("ended: every rank has left") == 4


@case(waits=True)
def small_packets_small_window(lab):
    """elements and window of the job are smaller than what the workers could do."""
    job = Job(workers=2, elements=32, window=16)
    box = run_box(lab, [job])
    workers = start_job(box, job, "--sizes 5000,100 --iterations 2")
    finish(workers)
    joined = workers[0].events("joined")[0]
    assert joined["elements"] == 32 and joined["window"] == 16, joined
    box.stop()


@case(waits=True)
def worker_asks_for_fewer_elements(lab):
    """TALLY_ELEMENTS of one rank lowers the packets of all."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    workers = [TestWorker(box, job, 0, "--sizes 5000"),
               TestWorker(box, job, 1, "--sizes 5000", environment={"TALLY_ELEMENTS": "64"})]
    finish(workers)
    assert all(worker.events("joined")[0]["elements"] == 64 for worker in workers)
    box.stop()
