"""Jobs over several boxes, over the kernel's links: docs/protocol_boxes.md with real processes."""
from box import Job
from counters import call
from lab import case
from programs import wait_until
from several_boxes import SeveralBoxes
from socket_worker import SocketServer
from workers import UNTIL_TOLD, finish, go_on


def make_job(workers=3, servers=2):
    return Job("vgg", workers=workers, servers=servers, discipline="shared", lease="5s")


def contributions(box, job):
    return call(box.control, "job.show", name=job.name)["contributions"]


def start_endless(boxes):
    workers = boxes.start_workers(f"--sizes 50000,353 --gap 20 {UNTIL_TOLD}")
    workers[0].wait_for("iteration", 3, seconds=60)
    return workers


def expect_progress(workers, more=3):
    counts = [len(worker.events("iteration")) for worker in workers]
    for worker, count in zip(workers, counts):
        worker.wait_for("iteration", count + more, seconds=60)


def end(boxes, workers):
    go_on(workers)
    finish(workers, seconds=90)
    boxes.stop()


@case("release", "address", waits=True)
def boxes_sum_one_job_together(lab):
    """Every sum is right, and each box has taken its part."""
    boxes = SeveralBoxes(lab, make_job(), boxes=3).start()
    finish(boxes.start_workers("--sizes 200000,353,1 --iterations 5"), seconds=120)
    shares = [contributions(box, boxes.job) for box in boxes.boxes]
    assert min(shares) > sum(shares) / 6, shares
    boxes.stop()


@case(waits=True)
def boxes_workers_join_at_any_of_them(lab):
    """Whom they ask first leads them to the home."""
    boxes = SeveralBoxes(lab, make_job()).start()
    finish(boxes.start_workers("--sizes 50000 --iterations 2", environment={"TALLY_SWITCH": boxes.job.boxes[1]}),
           seconds=90)
    boxes.stop()


@case(waits=True)
def boxes_one_is_lost(lab):
    """kill -9 of a box that is not the home: the others go on without it, no sum is wrong. It comes back, and is in the next plan."""
    boxes = SeveralBoxes(lab, make_job()).start()
    workers = start_endless(boxes)
    boxes.boxes[1].kill()
    boxes.wait_for_state(1, "left_out")
    expect_progress(workers)
    boxes.boxes[1].start()
    call(boxes.home.control, "job.replan", name=boxes.job.name)
    boxes.wait_for_state(1, "planned")
    expect_progress(workers)
    wait_until("its part", lambda: contributions(boxes.boxes[1], boxes.job) > 0, 30)
    end(boxes, workers)


@case(waits=True)
def boxes_one_forgets(lab):
    """A box that begins anew (tallyctl restart) is in the plan again at once."""
    boxes = SeveralBoxes(lab, make_job()).start()
    workers = start_endless(boxes)
    call(boxes.boxes[1].control, "daemon.restart")
    wait_until("its part", lambda: boxes.boxes[1].daemon.complained().count("ready: ") == 2, 60)
    expect_progress(workers, 5)
    boxes.wait_for_state(1, "planned")
    end(boxes, workers)


@case(waits=True)
def boxes_home_begins_anew(lab):
    """kill -9 of the home, and its start: the generation goes on."""
    boxes = SeveralBoxes(lab, make_job()).start()
    workers = start_endless(boxes)
    boxes.home.kill()
    boxes.home.start()
    expect_progress(workers, 5)
    end(boxes, workers)


@case(waits=True)
def boxes_lose_a_server(lab):
    """Another process in its place, from its host: nothing is lost."""
    boxes = SeveralBoxes(lab, make_job()).start()
    workers = start_endless(boxes)
    boxes.servers[0].program.kill()
    boxes.servers[0] = SocketServer(boxes.hosts[boxes.job.workers], [boxes.job], 0)
    expect_progress(workers, 5)
    end(boxes, workers)
