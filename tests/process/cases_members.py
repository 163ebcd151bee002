"""Who may join, who has left, who is dead: what the workers of a job are told about each other."""
import signal
import time

from box import Job, run_box
from lab import case
from programs import wait_until
from workers import UNTIL_TOLD, TestWorker, finish, go_on, kill_rank_1, start_job

# Long enough to be in the middle of it when something is done to it.
LONG = "--sizes 20000 --iterations 100000"


def wait_for_middle(workers, iteration=3):
    for worker in workers:
        worker.wait_for("iteration", iteration)


@case("release", "address", "thread", waits=True)
def worker_killed(lab):
    """kill -9: the others hear within the lease and one second which rank is dead, and who joins anew goes on."""
    job = Job(workers=3, lease="3s")
    box = run_box(lab, [job])
    workers = start_job(box, job, LONG)
    wait_for_middle(workers)
    kill_rank_1(box, workers, lease=3)
    finish(start_job(box, job, "--sizes 20000 --iterations 2"))
    box.stop()
    assert "rank 1" in box.daemon.complained()


@case("address", waits=True)
def worker_killed_while_forming(lab):
    """A rank dies before the last has joined; its place is free again after its lease."""
    job = Job(workers=3, lease="3s")
    box = run_box(lab, [job])
    first = [TestWorker(box, job, rank, "--sizes 5000") for rank in (0, 1)]
    box.wait_for_log("2 of 3 ranks are here")
    first[1].program.kill()
    box.wait_for_log("rank 1 is gone again")
    rest = [TestWorker(box, job, rank, "--sizes 5000") for rank in (1, 2)]
    finish([first[0], *rest])
    box.stop()


@case("address")
def dropped_worker_tells_the_others(lab):
    """A Worker that is destroyed without leave() says so; nobody waits for a lease."""
    job = Job(workers=2, lease="60s")
    box = run_box(lab, [job])
    stays = TestWorker(box, job, 0, LONG)
    goes = TestWorker(box, job, 1, "--sizes 20000 --iterations 3 --ending drop")
    assert goes.program.wait() == 0
    error = stays.error()
    # Of the operation under way; or of the next one, when it heard so between two.
    assert error["code"] in ("aborted", "closed"), error
    assert "rank 1" in error["text"] and "destroyed" in error["text"], error
    box.stop()


@case("address")
def joins_late(lab):
    """Two ranks wait for the third; box and workers say for whom."""
    job = Job(workers=3)
    box = run_box(lab, [job])
    early = [TestWorker(box, job, rank, "--sizes 5000") for rank in (0, 1)]
    box.wait_for_log("2 of 3 ranks are here")
    for program in (worker.program for worker in early):
        wait_until(f"{program.name} to say for whom it waits", lambda said=program.complained: "waiting for rank 2\n" in said())
    assert not any(worker.events("joined") for worker in early)
    late = TestWorker(box, job, 2, "--sizes 5000")
    finish([*early, late])
    box.stop()


@case("address", waits=True)
def never_joined(lab):
    """The join times out and names the rank that did not come."""
    job = Job(workers=3)
    box = run_box(lab, [job])
    workers = [TestWorker(box, job, rank, environment={"TALLY_JOIN_TIMEOUT": "6"}) for rank in (0, 2)]
    for worker in workers:
        error = worker.error()
        assert error["at"] == "join" and error["code"] == "timeout" and "rank 1" in error["text"], error
    box.stop()


@case(waits=True)
def who_gives_up_leaves_its_place(lab):
    """A rank without patience: another process of it joins at once, far below the lease, and is not told that it is held."""
    job = Job(workers=3, lease="120s")  # longer than a log is waited for
    box = run_box(lab, [job])
    waits = TestWorker(box, job, 0, "--sizes 5000")
    gone = TestWorker(box, job, 1, environment={"TALLY_JOIN_TIMEOUT": "6"}, name="impatient")
    error = gone.error()
    assert (error["at"], error["code"]) == ("join", "timeout"), error
    box.wait_for_log("rank 1 is gone again")
    gone.program.wait()
    finish([waits, *(TestWorker(box, job, rank, "--sizes 5000") for rank in (1, 2))])
    box.stop()


@case("address")
def wrong_token(lab):
    """Refused with the reason; who has the token is not disturbed."""
    job = Job(workers=2, token="open sesame")
    box = run_box(lab, [job], spare_ports=1)
    first = TestWorker(box, job, 0, "--sizes 20000 --iterations 3")
    thief = TestWorker(box, job, 1, port=2, environment={"TALLY_TOKEN": "open barley"}, name="thief")
    error = thief.error()
    assert (error["at"], error["code"]) == ("join", "refused") and "wrong token" in error["text"], error
    assert "barley" not in box.daemon.complained() and "sesame" not in box.daemon.complained()
    finish([first, TestWorker(box, job, 1, "--sizes 20000 --iterations 3")])
    box.stop()


@case(waits=True)
def memif_says_why_it_does_not_connect(lab):
    """A wrong path and an id that is no port's: the error of the join says so. Others are not disturbed."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    device = box.device_of(0)
    for name, transport, why in (("path", device.replace(box.socket, box.socket + ".not"), "nobody answers at memif socket"),
                                 ("id", device.replace("id=0", "id=77"), "ID not found")):
        lost = TestWorker(box, job, 1, environment={"TALLY_TRANSPORT": transport, "TALLY_JOIN_TIMEOUT": "6"}, name=name)
        error = lost.error()
        assert error["code"] == "unreachable" and why in error["text"], error
    finish(start_job(box, job, "--sizes 1000 --iterations 1"))
    box.stop()


@case(waits=True)
def wrong_job_or_world(lab):
    """A job that is not declared, and a world of another size: refused with both numbers."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    other = TestWorker(box, Job("other", workers=2), 0, port=0)
    error = other.error()
    assert error["code"] == "refused" and "'other' is not declared" in error["text"], error
    larger = TestWorker(box, Job(job.name, workers=3), 0, port=1, name="larger")
    error = larger.error()
    assert error["code"] == "refused" and "2 workers" in error["text"] and "3" in error["text"], error
    box.stop()


@case("address")
def two_workers_of_one_rank(lab):
    """The second is refused with the place of the first, and the first notices nothing."""
    job = Job(workers=2)
    box = run_box(lab, [job], spare_ports=1)
    workers = start_job(box, job, "--sizes 20000 --iterations 6 --pause 3")
    for worker in workers:
        worker.wait_for("paused")
    second = TestWorker(box, job, 1, port=2, name="second")
    error = second.error()
    assert error["code"] == "refused" and "rank 1" in error["text"] and "10.0.0.2" in error["text"], error
    go_on(workers)
    finish(workers)
    assert all(worker.statistics()["epochs"] == 1 for worker in workers)
    box.stop()


@case("address")
def operation_mismatch(lab):
    """{352, 704} against {704, 352}: both are told both ranks and both sizes."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    workers = [TestWorker(box, job, 0, "--sizes 352,704"), TestWorker(box, job, 1, "--sizes 704,352")]
    for worker in workers:
        error = worker.error()
        text = error["text"]
        assert error["code"] == "aborted", error
        assert all(words in text for words in ("rank 0", "rank 1", "352", "704")), error
    box.stop()


@case("address", waits=True)
def straggler_is_named(lab):
    """A rank that is alive and late: waiting goes on and says for whom; an operation with a time-out fails."""
    job = Job(workers=3)
    box = run_box(lab, [job])
    # The last one issues nothing from iteration 1 on, but its process is well.
    late = TestWorker(box, job, 1, "--sizes 5000 --iterations 2 --pause 1")
    waiting = [TestWorker(box, job, rank, "--sizes 5000 --iterations 2 --patience 700") for rank in (0, 2)]
    for worker in waiting:
        said = worker.wait_for("waiting", 2)
        assert "rank 1" in said["text"] and "rank 2" not in said["text"], said
    late.go_on()
    finish([*waiting, late])
    late = TestWorker(box, job, 1, "--sizes 5000 --iterations 2 --pause 1")
    hasty = [TestWorker(box, job, rank, "--sizes 5000 --iterations 2 --timeout 1000") for rank in (0, 2)]
    errors = [worker.error() for worker in hasty]
    # Who times out first tells the other, which may hear it before its own time is up.
    assert "timeout" in [error["code"] for error in errors], errors
    assert all("rank 1" in error["text"] for error in errors if error["code"] == "timeout"), errors
    box.stop()


@case("address")
def worker_paused_longer_than_rto(lab):
    """SIGSTOP for 300 ms is many retransmission times: exact, and nobody is told anything."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    workers = start_job(box, job, f"--sizes 100000 {UNTIL_TOLD}")
    for iteration in (3, 6):
        wait_for_middle(workers, iteration)
        workers[0].signal(signal.SIGSTOP)
        time.sleep(0.3)
        workers[0].signal(signal.SIGCONT)
    go_on(workers)
    finish(workers)
    assert workers[1].statistics()["retransmissions"] + workers[1].statistics()["queries"] > 0
    assert all(worker.statistics()["epochs"] == 1 for worker in workers)
    box.stop()


@case(waits=True)
def vanished_worker_of_one_job_only(lab):
    """The death of a worker is the affair of its job: the other one goes on."""
    jobs = [Job("doomed", workers=2, lease="3s"), Job("happy", workers=2)]
    box = run_box(lab, jobs)
    doomed = [TestWorker(box, jobs[0], 0, LONG),
              TestWorker(box, jobs[0], 1, "--sizes 20000 --iterations 3 --ending vanish")]
    happy = start_job(box, jobs[1], f"--sizes 20000 --gap 50 {UNTIL_TOLD}")
    error = doomed[0].error()
    assert error["code"] == "aborted" and "rank 1" in error["text"], error
    go_on(happy)
    finish(happy)
    assert all(worker.statistics()["epochs"] == 1 for worker in happy)
    box.stop()
