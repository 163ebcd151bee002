"""The box dies, frames are lost, memory and rings run out: sums stay exact and workers stay where they are."""
import os
import signal
import time

from box import Job, cpus_of_ours, run_box
from lab import case
from programs import Programs, wait_until
from workers import UNTIL_TOLD, TestWorker, finish, go_on, start_job, total


STEADY = f"--gap 20 {UNTIL_TOLD}"


def restart_in_the_middle(lab, box, job, restarts, pause=0.3):
    """A job over that many deaths of the box."""
    workers = start_job(box, job, f"{STEADY} --sizes 50000,353")
    for life in range(1, restarts + 1):
        for worker in workers:
            worker.wait_for("iteration", 10 * life)
        box.kill()
        time.sleep(pause)
        box.start()
    go_on(workers)
    finish(workers)
    for worker in workers:
        assert len(worker.events("started")) == 1 and worker.events("started")[0]["pid"] == worker.pid
        statistics = worker.statistics()
        assert statistics["epochs"] == 1 + restarts and statistics["generations"] == 1, statistics
    box.stop()


@case("release", "address", "thread", waits=True)
def box_killed_and_started_again(lab):
    """kill -9 in the middle of operations: exact results, the same worker processes, a new epoch."""
    job = Job(workers=3)
    restart_in_the_middle(lab, run_box(lab, [job]), job, restarts=1)


@case(waits=True)
def box_restarted_twice(lab):
    """Once more, with multicast results and two jobs' worth of memory."""
    job = Job(workers=2, results="multicast")
    restart_in_the_middle(lab, run_box(lab, [job]), job, restarts=2, pause=0)


@case(waits=True)
def box_killed_while_workers_are_idle(lab):
    """Nobody sends when it dies: heartbeats bring the workers to the new epoch, and one of them is late for it."""
    job = Job(workers=2, lease="10s")
    box = run_box(lab, [job])
    workers = start_job(box, job, "--sizes 20000 --iterations 4 --pause 2")
    for worker in workers:
        worker.wait_for("paused")
    box.kill()
    time.sleep(0.3)
    box.start()
    workers[0].go_on()
    time.sleep(0.5)
    workers[1].go_on()
    finish(workers)
    assert all(worker.statistics()["epochs"] == 2 for worker in workers)
    box.stop()


@case(waits=True)
def box_killed_while_forming(lab):
    """The first rank has joined and waits; the box that it joins in the end is another one."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    first = TestWorker(box, job, 0, "--sizes 5000")
    box.wait_for_log("1 of 2 ranks are here")
    box.kill()
    box.start()
    box.wait_for_log("1 of 2 ranks are here")
    finish([first, TestWorker(box, job, 1, "--sizes 5000")])
    box.stop()


@case(waits=True)
def worker_killed_while_the_box_is_away(lab):
    """The new box has never seen the dead rank; the others are told all the same that it did not come back."""
    job = Job(workers=3, lease="10s")
    box = run_box(lab, [job])
    workers = start_job(box, job, "--sizes 20000 --iterations 100000")
    for worker in workers:
        worker.wait_for("iteration", 3)
    box.kill()
    workers[2].program.kill()
    box.start()
    for worker in workers[:2]:
        error = worker.error()
        assert error["code"] in ("aborted", "refused") and "rank 2" in error["text"], error
    box.stop()


@case("address", waits=True)
def box_stays_away(lab):
    """No box for longer than the lease: the workers give up and say that it does not answer."""
    job = Job(workers=2, lease="3s")
    box = run_box(lab, [job])
    workers = start_job(box, job, "--sizes 20000 --iterations 100000")
    for worker in workers:
        worker.wait_for("iteration", 3)
    box.kill()
    for worker in workers:
        error = worker.error()
        assert error["code"] == "unreachable", error
        assert worker.program.wait() == 1


@case("address")
def workers_before_the_box(lab):
    """Workers that are started first wait for the box."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    box.stop()
    workers = start_job(box, job, "--sizes 5000")
    time.sleep(0.5)
    assert not any(worker.events("joined") or worker.events("error") for worker in workers)
    box.start()
    finish(workers)
    box.stop()


@case("release", "address", "thread", waits=True)
def one_percent_lost(lab):
    """impair: 1 % of the frames each way."""
    lossy(lab, "1%", "--sizes 200000,353 --iterations 3")


@case(waits=True)
def ten_percent_lost(lab):
    """impair: 10 %, more than any network a job should run on."""
    lossy(lab, "10%", "--sizes 50000,353 --iterations 3")


def lossy(lab, loss, script):
    job = Job(workers=3)
    box = run_box(lab, [job], loss=loss)
    workers = start_job(box, job, script)
    finish(workers)
    counted = box.stop()
    assert counted.core("lost_on_purpose_in") > 0 and counted.core("lost_on_purpose_out") > 0, counted.text
    assert total(workers, "retransmissions") > 0
    line = counted.jobs[job.name]
    assert line["results"] == workers[0].statistics()["results"], counted.text
    assert f"frames are impaired on purpose, in and out: {loss} lost" in box.daemon.complained()


@case("release", "address", "thread", waits=True)
def every_fault_at_once(lab):
    """impair: loss in bursts, copies, reordering, flipped bits and delays each way, results to all and to each."""
    jobs = [Job(workers=2), Job(workers=2, name="group", results="multicast")]
    box = run_box(lab, jobs, data_cores=min(2, len(cpus_of_ours())),
                  impair="loss: 1%, burst: 3, duplicate: 1%, reorder: 1%, corrupt: 1%, delay: 200us, "
                         "jitter: 100us, out: {delay: 1ms}")
    workers = [start_job(box, job, "--sizes 50000,353 --iterations 3") for job in jobs]
    for job in workers:
        finish(job)
    counted = box.stop()
    assert len(counted.impaired) == 2 * box.ports, counted.text
    for column in ("lost", "duplicated", "reordered", "corrupted", "delayed"):
        for direction in ("in", "out"):
            assert sum(row[column] for (_, way), row in counted.impaired.items() if way == direction) > 0, counted.text
    for job, of_job in zip(jobs, workers):
        assert counted.jobs[job.name]["results"] == of_job[0].statistics()["results"], counted.text
    assert ("on purpose, in: 1% lost in bursts of 3, 1% duplicated, 1% reordered, 1% corrupted, delayed by 200us "
            "+-100us; out: 1% lost in bursts of 3, 1% duplicated, 1% reordered, 1% corrupted, delayed by 1ms +-100us"
            in box.daemon.complained())


@case("address")
def mempool_exhausted(lab):
    """Most packet buffers are taken away while frames fly: losses with a name, and exact sums."""
    job = Job(workers=2)
    # A mempool driver that can be told to hold buffers back (scarce_pool.cc), by DPDK's own options.
    box = run_box(lab, [job], libraries=os.path.dirname(Programs.scarce_pool),
                  eal=("-d", os.path.basename(Programs.scarce_pool), "--mbuf-pool-ops-name=tally_scarce"))
    workers = start_job(box, job, f"{STEADY} --sizes 50000,353")
    for worker in workers:
        worker.wait_for("iteration", 3)
    box.daemon.signal(signal.SIGUSR2)
    lost = lambda counted: counted.core("lost_no_mbuf") + counted.port("rx_no_mbuf")
    wait_until("frames without a buffer", lambda: lost(box.counters()) > 0)
    box.daemon.signal(signal.SIGUSR2)
    go_on(workers)
    finish(workers)
    box.stop()
    assert "packet buffers ran out" in box.daemon.complained()
    assert all(worker.statistics()["epochs"] == 1 for worker in workers)


@case("address")
def transmit_ring_exhausted(lab):
    """A worker stands still with a short ring: its port refuses what does not fit; exact when it goes on."""
    job = Job(workers=3)
    box = run_box(lab, [job], device=",rsize=7")
    workers = start_job(box, job, f"--sizes 100000 {UNTIL_TOLD}")
    for worker in workers:
        worker.wait_for("iteration", 3)
    for _ in range(3):
        workers[1].signal(signal.SIGSTOP)
        time.sleep(0.3)
        workers[1].signal(signal.SIGCONT)
        time.sleep(0.1)
    go_on(workers)
    finish(workers)
    counted = box.stop()
    assert counted.core("lost_transmit_ring_full") > 0, counted.text


@case(waits=True)
def second_box_on_the_same_socket(lab):
    """The second tallyd says who is in its way and ends; the first notices nothing."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    workers = start_job(box, job, "--sizes 5000 --iterations 4 --pause 2")
    for worker in workers:
        worker.wait_for("paused")
    first = box.daemon
    box.rename("another")
    second = box.launch()
    assert second.wait() == 1
    assert f"'{box.control}' is in use by process {first.pid}" in second.complained(), second.complained()
    box.config.write_text(box.config.read_text().replace(box.control, box.control + ".2"))
    third = box.launch()
    assert third.wait() == 1
    assert f"{box.socket} is in use" in third.complained(), third.complained()
    box.daemon = first
    go_on(workers)
    finish(workers)
    box.stop()


@case(waits=True)
def worker_restarted_on_its_port(lab):
    """A new process takes over port and rank of one that was killed, again and again."""
    job = Job(workers=2, lease="3s")
    box = run_box(lab, [job])
    for _ in range(2):
        stays = TestWorker(box, job, 0, "--sizes 20000 --iterations 100000")
        goes = TestWorker(box, job, 1, "--sizes 20000 --iterations 100000")
        goes.wait_for("iteration", 3)
        goes.program.kill()
        assert stays.error()["code"] == "aborted"
        assert stays.program.wait() == 1
    finish(start_job(box, job, "--sizes 20000 --iterations 2"))
    box.stop()
