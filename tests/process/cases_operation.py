"""Running the daemon: how it ends, whose memory it takes, who may run it."""
import os
import pathlib
import signal

from box import Box, Job, Options, run_box
from lab import Skipped, case
from programs import wait_until
from workers import TestWorker, finish, go_on, hugepages_free, is_root, start_job

MEBIBYTE = 1 << 20
# tallyd's; workers on memif take none.
HUGEPAGE_DEMAND = 128 * MEBIBYTE


@case("release", "address", "thread", waits=True)
def drains_on_sigterm(lab):
    """The running job finishes, a new one is refused with the reason, then tallyd ends with 0."""
    jobs = [Job("running", workers=2), Job("late", workers=1)]
    box = run_box(lab, jobs, "--drain", "60")
    workers = start_job(box, jobs[0], "--sizes 20000 --iterations 4 --pause 2")
    for worker in workers:
        worker.wait_for("paused")
    box.daemon.signal(signal.SIGTERM)
    box.wait_for_log("shutting down")
    error = TestWorker(box, jobs[1], 0).error()
    assert error["code"] == "refused" and "shutting down" in error["text"], error
    assert box.daemon.runs()
    go_on(workers)
    finish(workers)
    assert box.daemon.wait() == 0
    assert "job 'running': ended: every rank has left" in box.daemon.complained()
    assert box.final_counters().jobs["running"]["phase"] == "ended"


@case("address")
def drain_comes_to_an_end(lab):
    """A job that does not finish in time is withdrawn, and its workers are told why."""
    job = Job(workers=2)
    box = run_box(lab, [job], "--drain", "1")
    workers = start_job(box, job, "--sizes 5000 --iterations 2 --pause 1")
    workers[1].wait_for("paused")
    workers[0].wait_for("paused")
    workers[0].go_on()  # waits for rank 1 for ever
    box.daemon.signal(signal.SIGTERM)
    error = workers[0].error()
    assert error["code"] == "aborted" and "shutting down" in error["text"], error
    assert box.daemon.wait() == 0


@case("address")
def ends_without_a_trace(lab):
    """After SIGTERM no file of ours is left: not the socket, not DPDK's."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    assert os.path.exists(box.socket)
    finish(start_job(box, job, "--sizes 5000"))
    box.stop()
    assert not left_behind(lab), f"left behind: {left_behind(lab)}"


def left_behind(lab):
    """Files that the programs of this lab have made and not removed. TMPDIR is the lab's directory."""
    own = {path.name for program in lab.programs for path in (program.out, program.err)} | {"box.yaml", "counters.json", "lock"}
    found = {path for path in pathlib.Path(lab.directory).iterdir() if path.name not in own}
    # DPDK names its files after the instance (tallyd) or the process (libtally).
    names = ("test" + str(os.getpid()), *(f"worker-{program.pid}" for program in lab.programs))
    for folder in ("/run/dpdk", "/tmp/dpdk", "/dev/hugepages", "/dev/shm"):
        if os.path.isdir(folder):
            found |= {path for path in pathlib.Path(folder).iterdir() if any(name in path.name for name in names)}
    return {str(path) for path in found}


@case()
def too_little_memory(lab):
    """dataplane.memory does not hold the packet buffers: exit 1, what is needed and the key."""
    box = Box(lab, [Job(workers=8)], Options(memory="24MiB", mtu=9000, device=",bsize=9216"))
    daemon = box.launch()
    assert daemon.wait() == 1
    said = daemon.complained()
    assert "cannot start: " in said and "dataplane.memory" in said and "MiB" in said, said


def need_hugepages():
    if hugepages_free() < HUGEPAGE_DEMAND:
        raise Skipped(f"needs {HUGEPAGE_DEMAND // MEBIBYTE} MiB of free hugepages and has "
                      f"{hugepages_free() // MEBIBYTE} (as root, make test reserves them)")
    if not is_root():
        raise Skipped("needs root to map hugepages")


@case()
def sums_in_hugepages(lab):
    """The box takes its memory from hugepages."""
    need_hugepages()
    free = hugepages_free()
    job = Job(workers=2)
    box = run_box(lab, [job], hugepages="on")
    assert hugepages_free() < free
    workers = start_job(box, job, "--sizes 100000,353 --iterations 5")
    finish(workers)
    box.stop()
    assert "hugepages" in box.daemon.complained().split("ready: ")[1]
    wait_until(f"the {free // MEBIBYTE} MiB of hugepages to be free again", lambda: hugepages_free() >= free)


@case()
def killed_with_hugepages(lab):
    """kill -9 of the box and of a worker: no hugepage stays taken, no file stays."""
    need_hugepages()
    free = hugepages_free()
    job = Job(workers=2, lease="1s")
    box = run_box(lab, [job], hugepages="on")
    workers = start_job(box, job, "--sizes 20000 --iterations 100000")
    for worker in workers:
        worker.wait_for("iteration", 3)
    box.kill()
    for worker in workers:
        worker.program.kill()
    wait_until(f"the {free // MEBIBYTE} MiB of hugepages to be free again", lambda: hugepages_free() >= free)
    # The next box removes the sockets.
    left = left_behind(lab) - {box.socket, box.control}
    assert not left, f"left behind: {left}"
    box.start()
    finish(start_job(box, job, "--sizes 5000"))
    box.stop()


@case()
def wants_hugepages_that_are_not_there(lab):
    """hugepages: on, and too few are free: exit 1, the numbers, and the command that reserves them."""
    memory = hugepages_free() // MEBIBYTE + 1024
    box = Box(lab, [Job(workers=1)], Options(memory=f"{memory}MiB", hugepages="on"))
    daemon = box.launch()
    assert daemon.wait() == 1
    said = daemon.complained()
    assert "dataplane.hugepages: on" in said and f"{memory} MiB" in said and "nr_hugepages" in said, said


@case()
def goes_on_without_hugepages(lab):
    """hugepages: auto, and too few are free: a warning with the command, and ordinary memory."""
    memory = hugepages_free() // MEBIBYTE + 256
    job = Job(workers=2)
    box = run_box(lab, [job], memory=f"{memory}MiB", hugepages="auto")
    finish(start_job(box, job, "--sizes 20000 --iterations 2"))
    box.stop()
    said = box.daemon.complained()
    assert "nr_hugepages" in said and "ordinary memory" in said, said


@case(waits=True)
def ordinary_user(lab):
    """Neither the box nor the workers need root."""
    if not is_root():
        raise Skipped("this is an ordinary user already: all other cases show it")
    lab.become_ordinary()
    job = Job(workers=2)
    box = run_box(lab, [job])
    workers = start_job(box, job, "--sizes 20000,353 --iterations 3 --pause 1")
    for worker in workers:
        worker.wait_for("paused")
    for program in lab.programs:
        owner = os.stat(f"/proc/{program.pid}").st_uid
        assert owner == lab.user, f"{program.name} runs as user {owner}"
    go_on(workers)
    finish(workers)
    box.stop()
