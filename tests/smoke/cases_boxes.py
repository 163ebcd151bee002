"""Jobs over several boxes, over the kernel's links: docs/protocol_boxes.md with real processes."""
import pathlib
import re
import statistics

from box import Job
from counters import call
from etcd import Etcd
from lab import case
from programs import Stopwatch, wait_until
from several_boxes import RackBoxes, SeveralBoxes, shape
from socket_worker import SocketServer
from workers import UNTIL_TOLD, finish, go_on


SIZES = (50000, 353)  # of the tensors of an iteration


def make_job(workers=3, servers=2):
    return Job("vgg", workers=workers, servers=servers, discipline="shared", lease="20s")


def contributions(box, job):
    return call(box.control, "job.show", name=job.name)["contributions"]


def start_endless(boxes):
    workers = boxes.start_workers(f"--sizes {SIZES[0]},{SIZES[1]} --gap 20 {UNTIL_TOLD}")
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


NIC = 10e6  # bit/s


class Shaped(SeveralBoxes):
    """Two racks: half of the workers, a server and a box in each, on an uplink as narrow as one worker. A box takes in what its
    rack's workers can send: its port of the switch has that rate. Results of servers, which plans do not count, pass."""
    FRAME = 1506 / 1408  # of a packet's values

    def __init__(self, lab):
        super().__init__(lab, Job("vgg", workers=4, servers=2, discipline="shared", lease="20s", window=16))
        self.cluster = pathlib.Path(lab.directory, "cluster.yaml")
        self.cluster.write_text(self.cluster_yaml())
        self.home.config.write_text(f"planner: {{cluster: {self.cluster}}}\n" + self.home.yaml())
        for number in range(2):
            self.limit(number, 2 * NIC)

    def cluster_yaml(self):
        half = self.job.workers // 2
        racks = [self.hosts[:half], self.hosts[half:2 * half]]
        lines = [f"leaf_spine: {{racks: 2, spines: 1, hosts: {half}, nic: 10M, uplink: 10M}}", "places:"]
        for number, rack in enumerate(racks):
            members = [host.ipv4 for host in (*rack, self.hosts[2 * half + number])]
            lines += [f"  - {{rack: rack{number + 1}, addresses: {address}/32}}" for address in members]
        addresses = ", ".join(self.job.boxes)
        return "\n".join(lines + [f"boxes: [{{at: racks, rate: {10 * half}M, address: [{addresses}]}}]",
                                  "servers: [{name: 'ps[1-2]', rack: 'rack[1-2]', nic: 10M}]\n"])

    def limit(self, number, rate):
        shape(self.home.switch, f"box{number or ''}", rate, [host.ipv4 for host in self.hosts[self.job.workers:]])

    def measured(self, workers, iterations=4):
        """bit/s of every worker, in the median of the next ones."""
        first = max(len(worker.events("iteration")) for worker in workers) + 1  # what is under way may be of another plan
        for worker in workers:
            worker.wait_for("iteration", first + iterations, seconds=60)
        rounds = zip(*(worker.events("iteration")[first:first + iterations] for worker in workers))
        seconds = statistics.median(max(one["ended_us"] for one in each) - max(one["began_us"] for one in each) for each in rounds) / 1e6
        return 8 * 4 * sum(SIZES) * self.FRAME / seconds

    def planned(self):
        """bit/s of every worker, as its plan has it."""
        return call(self.home.control, "plan.show")["jobs"][0]["rate_gbps"] * 1e9


def plans_of(box, *causes):
    """Lines of the log: the plans that it had for these."""
    return [line for line in box.daemon.complained().splitlines() if any(f"plan ({cause}" in line for cause in causes)]


@case()
def boxes_follow_the_planner(lab):
    """Ports of boxes have a rate. Racks use their own boxes. A port's rate is halved, a box is killed and comes back: each time
    another plan, and no sum is wrong. The one for the halved rate comes within a second, and workers are as fast as it says."""
    boxes = Shaped(lab).start()
    workers = start_endless(boxes)
    home = boxes.home

    def wait_for(*causes, before=0):
        wait_until(f"a plan ({causes})", lambda: len(plans_of(home, *causes)) > before, 60)
        line = plans_of(home, *causes)[before]
        print(line)
        return line

    def expect_rate(of_before=None):
        """As planned; of_before: the same of another plan, for the machine may be slow."""
        found, planned = boxes.measured(workers), boxes.planned()
        print(f"{found / 1e6:.2f} Mbit/s of every worker, planned {planned / 1e6:.2f}")
        assert found < 1.15 * planned, "the links have another rate than the planner was told"
        assert of_before is None or found > 0.5 * of_before[0] * planned / of_before[1], of_before
        return found, planned

    assert "own racks" in wait_for("first"), plans_of(home, "first")
    expect_progress(workers)
    at_first = expect_rate()
    counts = [contributions(box, boxes.job) for box in boxes.boxes]
    assert min(counts) > 0.3 * sum(counts), counts
    changes = ("drift", "gain", "refine")  # on a slow machine the plan in haste is mended at the same time
    before = len(plans_of(home, *changes))
    watch = Stopwatch(home.daemon, *(worker.program for worker in workers))
    boxes.limit(0, NIC)
    call(home.control, "plan.rate", resource="box rack1", rate="10M")
    line = wait_for(*changes, before=before)
    took = float(re.search(r"; ([0-9.]+) ms after its trigger", line)[1]) / 1e3 - watch.starved()
    assert took < 1, f"{took:.2f} s after its trigger"
    expect_rate(at_first)
    boxes.boxes[1].kill()
    wait_for("lost")
    boxes.boxes[1].start()  # it is tried in 10 s
    expect_progress(workers)
    wait_for("returned")
    boxes.wait_for_state(1, "planned")
    expect_progress(workers)
    end(boxes, workers)


@case()
def boxes_of_a_fleet_go_on_without_etcd(lab):
    """etcd is killed under load: the job runs on, at the same rate, and both boxes say so. Without it a box is lost, and the job
    goes on; when it is back, both are members again."""
    boxes = Shaped(lab)
    home, other = boxes.boxes
    home.namespace.ip(f"link add fleet type veth peer name fleet netns {other.namespace.holder.pid}")
    for number, box in enumerate(boxes.boxes):
        box.namespace.ip(f"addr add 172.31.0.{number + 1}/30 dev fleet", "link set fleet up")
    etcd = Etcd(lab, within=(home.namespace, "172.31.0.1")).start(ready=False)
    for number, box in enumerate(boxes.boxes):
        box.config.write_text(f"fleet: {{endpoints: ['{etcd.endpoint}'], id: box{number}}}\n" + box.config.read_text())
    boxes.start()

    def wait_for_standing(standing):
        def look():
            return [call(box.control, "fleet.show")["standing"] for box in boxes.boxes] == [standing] * 2
        wait_until(f"both boxes to be {standing}", look, 60)

    wait_for_standing("member")
    workers = start_endless(boxes)
    before = boxes.measured(workers)
    etcd.kill()
    wait_for_standing("away")
    after = boxes.measured(workers)
    print(f"{before / 1e6:.2f} Mbit/s of every worker with etcd, {after / 1e6:.2f} without")
    assert after > 0.5 * before
    other.kill()
    wait_until("a plan without it", lambda: plans_of(home, "lost"), 60)
    print(plans_of(home, "lost")[-1])
    expect_progress(workers)
    other.start()
    etcd.start(ready=False)
    wait_for_standing("member")
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
