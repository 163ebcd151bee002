"""Jobs over several boxes, over the kernel's links: docs/protocol_boxes.md with real processes."""
import pathlib

from box import Job
from counters import call
from lab import case
from programs import wait_until
from several_boxes import RackBoxes, SeveralBoxes
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


@case("release", "address")
def boxes_sum_one_job_together(lab):
    """Every sum is right, and each box has taken its part."""
    boxes = SeveralBoxes(lab, make_job(), boxes=3).start()
    finish(boxes.start_workers("--sizes 200000,353,1 --iterations 5"), seconds=120)
    shares = [contributions(box, boxes.job) for box in boxes.boxes]
    assert min(shares) > sum(shares) / 6, shares
    boxes.stop()


@case()
def boxes_workers_join_at_any_of_them(lab):
    """Whom they ask first leads them to the home."""
    boxes = SeveralBoxes(lab, make_job()).start()
    finish(boxes.start_workers("--sizes 50000 --iterations 2", environment={"TALLY_SWITCH": boxes.job.boxes[1]}),
           seconds=90)
    boxes.stop()


@case()
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


def cluster_of(boxes):
    """Two racks: half of the workers, a server and a box in each, on an uplink as narrow as one worker."""
    half = boxes.job.workers // 2
    racks = [boxes.hosts[:half], boxes.hosts[half:2 * half]]
    lines = [f"leaf_spine: {{racks: 2, spines: 1, hosts: {half}, nic: 10M, uplink: 10M}}", "places:"]
    for number, rack in enumerate(racks):
        members = [host.ipv4 for host in (*rack, boxes.hosts[2 * half + number])]
        lines += [f"  - {{rack: rack{number + 1}, addresses: {address}/32}}" for address in members]
    addresses = ", ".join(boxes.job.boxes)
    return "\n".join(lines + [f"boxes: [{{at: racks, rate: {10 * half}M, address: [{addresses}]}}]",
                              "servers: [{name: 'ps[1-2]', rack: 'rack[1-2]', nic: 10M}]\n"])


def plans_of(box, *causes):
    """Lines of the log: the plans that it had for these."""
    return [line for line in box.daemon.complained().splitlines() if any(f"plan ({cause}" in line for cause in causes)]


@case()
def boxes_follow_the_planner(lab):
    """Racks use their own boxes. A link is halved, a box is killed and comes back: each time another plan, and no sum is wrong."""
    boxes = SeveralBoxes(lab, make_job(workers=4))
    cluster = pathlib.Path(lab.directory, "cluster.yaml")
    cluster.write_text(cluster_of(boxes))
    boxes.home.config.write_text(f"planner: {{cluster: {cluster}}}\n" + boxes.home.yaml())
    boxes.start()
    workers = start_endless(boxes)
    home = boxes.home

    def wait_for(*causes, before=0):
        wait_until(f"a plan ({causes})", lambda: len(plans_of(home, *causes)) > before, 60)
        print(plans_of(home, *causes)[-1])

    wait_for("first")
    assert "own racks" in plans_of(home, "first")[0], plans_of(home, "first")
    expect_progress(workers)
    counts = [contributions(box, boxes.job) for box in boxes.boxes]
    assert min(counts) > 0.3 * sum(counts), counts
    changes = ("drift", "gain", "refine")  # on a slow machine the plan in haste is mended at the same time
    before = len(plans_of(home, *changes))
    call(home.control, "plan.rate", resource="box rack1", rate="5M")
    wait_for(*changes, before=before)
    expect_progress(workers)
    boxes.boxes[1].kill()
    wait_for("lost")
    expect_progress(workers)
    boxes.boxes[1].start()
    wait_for("returned")
    boxes.wait_for_state(1, "planned")
    expect_progress(workers)
    end(boxes, workers)


@case()
def boxes_one_forgets(lab):
    """A box that begins anew (tallyctl restart) is in the plan again at once."""
    boxes = SeveralBoxes(lab, make_job()).start()
    workers = start_endless(boxes)
    call(boxes.boxes[1].control, "daemon.restart")
    wait_until("its part", lambda: boxes.boxes[1].daemon.complained().count("ready: ") == 2, 60)
    expect_progress(workers, 5)
    # Where its start takes longer than members wait for a box it has been left out, and comes back with the next plan.
    if boxes.state_of(1) == "left_out":
        call(boxes.home.control, "job.replan", name=boxes.job.name)
    boxes.wait_for_state(1, "planned")
    end(boxes, workers)


@case()
def boxes_home_begins_anew(lab):
    """kill -9 of the home, and its start: the generation goes on."""
    boxes = SeveralBoxes(lab, make_job()).start()
    workers = start_endless(boxes)
    boxes.home.kill()
    boxes.home.start()
    expect_progress(workers, 5)
    end(boxes, workers)


@case()
def boxes_lose_a_server(lab):
    """Another process in its place, from its host: nothing is lost."""
    boxes = SeveralBoxes(lab, make_job()).start()
    workers = start_endless(boxes)
    boxes.servers[0].program.kill()
    boxes.servers[0] = SocketServer(boxes.hosts[boxes.job.workers], [boxes.job], 0)
    # Some sums need no server, so that workers go on before it is there.
    wait_until("the other process", lambda: "runs with" in boxes.servers[0].program.complained())
    expect_progress(workers, 5)
    end(boxes, workers)


@case("address")
def racks_whose_boxes_die_one_after_the_other(lab):
    """docs/protocol_racks.md: two racks and their parent; kill -9 of each box, and its start. No sum is wrong."""
    boxes = RackBoxes(lab, "vgg", workers=(2, 2)).start()
    workers = start_endless(boxes)
    for box in boxes.boxes:
        box.kill()
        box.start()
        expect_progress(workers)
    end(boxes, workers)
