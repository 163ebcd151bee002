"""SIGHUP: the operator changes the configuration of a running box."""
import dataclasses
import re
import signal

from box import Job, run_box
from counters import ask
from lab import case
from programs import wait_until
from workers import UNTIL_TOLD, finish, go_on, start_job

WINDOWS = (64, 256, 16, 128, 32, 256, 64, 16, 256, 128)
BESIDE = "beside"


def runs(box, name):
    """(generation, epoch, window) of each time that the job began to run, in order."""
    found = re.findall(rf"job '{name}': running: generation (\w+), epoch (\w+), window (\d+),", box.daemon.complained())
    return [(generation, epoch, int(window)) for generation, epoch, window in found]


def wait_for_work(workers, iterations=2):
    """So many more of each."""
    goals = [len(worker.events("iteration")) + iterations for worker in workers]
    for worker, goal in zip(workers, goals):
        worker.wait_for("iteration", goal)


def resized_ten_times(lab, **options):
    """A job of three workers gets ten windows while it reduces, and one beside it none."""
    job = Job(workers=3, window=WINDOWS[-1])
    jobs = [job, Job(BESIDE)]
    box = run_box(lab, jobs, **options)
    job.window = 256  # the largest of the generation: what it begins with
    box.reload()
    box.wait_for_log("gets a window of 256 instead of 128")
    # Many windows to an operation.
    workers = start_job(box, job, f"--sizes 400000,353 --gap 5 {UNTIL_TOLD}")
    beside = start_job(box, jobs[1], f"--sizes 20000 --gap 5 {UNTIL_TOLD}")
    for count, window in enumerate(WINDOWS, 1):
        wait_for_work(workers)
        job.window = window
        box.reload()
        wait_until(lambda: f"window {window}; ran so far: {runs(box, job.name)}",
                   lambda: len(runs(box, job.name)) == count + 1)
    go_on(workers + beside)
    finish(workers)
    finish(beside)
    epochs = runs(box, job.name)
    assert [window for _, _, window in epochs] == [256, *WINDOWS], epochs
    assert len({epoch for _, epoch, _ in epochs}) == 11, epochs
    assert len({generation for generation, _, _ in epochs}) == 1, epochs
    assert all(worker.statistics()["epochs"] == 11 and worker.statistics()["generations"] == 1 for worker in workers)
    assert all(worker.statistics()["epochs"] == 1 for worker in beside)
    assert len(runs(box, BESIDE)) == 1
    return box.stop()


@case("address")
def pool_resized_ten_times_under_load(lab):
    """Each new window is a new epoch of the same generation, and no bit of a sum differs."""
    resized_ten_times(lab)


@case("address")
def pool_resized_ten_times_with_loss(lab):
    """The same with 1 % of the frames lost."""
    counted = resized_ten_times(lab, loss="1%")
    assert counted.core("lost_on_purpose_in") > 0 and counted.core("lost_on_purpose_out") > 0, counted.text


@case("address")
def reload_says_what_it_does(lab):
    """Errors are logged with their places and change nothing, what needs a restart is named; jobs come and go."""
    job = Job(workers=2)
    box = run_box(lab, [job], spare_ports=1)
    workers = start_job(box, job, "--sizes 5000 --iterations 3 --pause 1,2")
    for worker in workers:
        worker.wait_for("paused")
    good = box.config.read_text()
    box.config.write_text(good.replace("window: 256", "window: 255"))
    box.daemon.signal(signal.SIGHUP)
    box.wait_for_log("box.yaml:")
    box.wait_for_log("255 is not a power of two; write 128 or 256")
    box.wait_for_log("the configuration has errors; nothing was changed")
    box.config.write_text(good.replace("slots: 16MiB", "slots: 8MiB").replace("mtu: 1500", "mtu: 1400", 1)
                          + "  - {name: second, workers: 1, token_file: none}\n")
    box.daemon.signal(signal.SIGHUP)
    box.wait_for_log("restart to apply: dataplane.slots, ports[0].mtu")
    box.wait_for_log("job 'second' is declared")
    finish(start_job(box, Job("second", workers=1, first_port=2), "--sizes 1000 --iterations 2"))
    go_on(workers)
    for worker in workers:
        worker.wait_for("paused", 2)
    box.config.write_text(good)
    box.daemon.signal(signal.SIGHUP)
    box.wait_for_log("job 'second' is gone from the configuration")
    go_on(workers)
    finish(workers)
    assert all(worker.statistics()["epochs"] == 1 for worker in workers)
    box.stop()


@case("address")
def faults_on_purpose_come_and_go(lab):
    """A reload loses and corrupts frames of a running job, and another one stops that; every sum is right. A delay, for
    which no packet buffers were set aside, waits for a restart."""
    job = Job()
    box = run_box(lab, [job], control="access: owner")
    workers = start_job(box, job, f"--sizes 20000,353 --gap 2 {UNTIL_TOLD}")
    wait_for_work(workers)

    def impair(faults, words):
        box.options = dataclasses.replace(box.options, impair=faults)
        box.reload()
        box.wait_for_log(words)

    impair("loss: 2%, corrupt: 0.5%", "port p1 has other faults on purpose: in 2% lost, 0.5% corrupted; out 2% lost")
    wait_until("faults", lambda: all(counts["lost"] and counts["corrupted"] for counts in ask(box.control).impaired.values())
               and len(ask(box.control).impaired) == 4)
    wait_for_work(workers)
    impair("", "port p1 has other faults on purpose: in nothing; out nothing")
    wait_for_work(workers)
    before = ask(box.control).impaired
    wait_for_work(workers, 20)
    assert ask(box.control).impaired == before, (before, ask(box.control).impaired)
    impair("delay: 1ms", "reload: restart to apply: ports[0].impair.delay")
    assert ask(box.control).impaired == before
    go_on(workers)
    finish(workers)
    assert all(worker.statistics()["epochs"] == 1 for worker in workers)
    box.stop()
