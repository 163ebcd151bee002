"""Jobs whose server is a process of its own, tally-ps: what finds no slot crosses the box twice more, and every sum is
exact all the same."""
import re
import signal

from box import Job, run_box
from cases_shared import FEW, busy_until_told, wait_for_middle, wait_until_slots_are_free
from lab import case
from programs import Programs
from workers import finish, go_on, start_job, total


class Server:
    """One tally-ps, server `index` of each of `jobs`, behind a port of the first."""

    def __init__(self, box, jobs, index=0, arguments=()):
        port = jobs[0].first_port + jobs[0].workers + index
        command = [box.lab.path_of(Programs.server), "--transport", box.device_of(port), "--box", box.address(),
                   "--address", box.address_of(port), "--mtu", str(box.options.mtu), *arguments]
        for job in jobs:
            command += ["--job", f"{job.name}:{index}"]
        self.program = box.lab.run(f"server{index}", command)

    def stop(self):
        """SIGTERM; it says what it did."""
        self.program.signal(signal.SIGTERM)
        code = self.program.wait()
        assert code == 0, f"tally-ps ended with {code}: {self.program.complained()}"
        return self.program.said()


def check_slots(counted, job):
    """Some chunks were summed by the server, and their number is what workers and box counted."""
    line = counted.slots[job.name]
    assert line["served"] > 0 and line["denied"] + line["evicted"] > 0, counted.text
    assert line["filling"] == 0, counted.text


@case("release", "address")
def server_of_its_own(lab):
    """Three classes over 8 slots, one tally-ps for all three jobs, which are busy at the same time."""
    jobs = [Job("low", discipline="shared", elements=32, priority=10, servers=1),
            Job("normal", discipline="shared", elements=32, servers=1),
            Job("urgent", discipline="fcfs", elements=32, priority=254, servers=1)]
    box = run_box(lab, jobs, shared_slots=FEW)
    server = Server(box, jobs)
    busy = [start_job(box, job, busy_until_told(job, 20000)) for job in jobs[:2]]
    for workers in busy:
        wait_for_middle(workers)
    urgent = start_job(box, jobs[2], "--sizes 20000,353 --iterations 10")
    finish(urgent)
    for workers in busy:
        go_on(workers)
        finish(workers)
    wait_until_slots_are_free(box, *(job.name for job in jobs))
    server.stop()
    counted = box.stop()
    for job in jobs:
        check_slots(counted, job)


@case("address")
def servers_share_the_chunks(lab):
    """Two tally-ps for one job, each sums every other chunk; with every kind of fault on all ports."""
    job = Job("job", discipline="shared", elements=32, servers=2)
    box = run_box(lab, [job], shared_slots=FEW,
                  impair="loss: 1%, duplicate: 1%, reorder: 1%, corrupt: 1%, delay: 200us, jitter: 100us")
    servers = [Server(box, [job], index) for index in range(2)]
    workers = start_job(box, job, "--sizes 20000,353 --iterations 3")
    finish(workers)
    wait_until_slots_are_free(box, job.name)
    for server in servers:
        server.stop()
    check_slots(box.stop(), job)


@case("address")
def server_killed_and_started_again(lab):
    """kill -9 of tally-ps under load, and a new one in its place: its partial sums are lost, and no bit of a result."""
    job = Job("job", discipline="shared", elements=32, servers=1)
    box = run_box(lab, [job], shared_slots=FEW)
    server = Server(box, [job])
    workers = start_job(box, job, busy_until_told(job, 20000))
    wait_for_middle(workers)
    server.program.kill()
    server = Server(box, [job])
    go_on(workers)
    finish(workers)
    assert all(worker.statistics()["epochs"] == 1 for worker in workers), "no new epoch for a server"
    wait_until_slots_are_free(box, job.name)
    server.stop()
    check_slots(box.stop(), job)


@case(waits=True)
def server_gone_for_good(lab):
    """A server that does not come back is named when its lease ends."""
    job = Job("job", discipline="shared", elements=32, servers=1, lease="3s")
    box = run_box(lab, [job], shared_slots=FEW)
    server = Server(box, [job])
    workers = start_job(box, job, "--sizes 20000 --iterations 100000")
    wait_for_middle(workers)
    server.program.kill()
    for worker in workers:
        error = worker.error()
        assert error["code"] == "aborted" and "server 0" in error["text"], error
        assert worker.program.wait() == 1
    box.stop()


@case(waits=True)
def server_with_too_little_memory(lab):
    """What the server cannot hold it refuses by name; the workers offer it again, and every sum is exact."""
    job = Job("job", discipline="shared", elements=32, servers=1)
    box = run_box(lab, [job], shared_slots=FEW)
    server = Server(box, [job], arguments=["--memory", "4KiB"])
    workers = start_job(box, job, "--sizes 5000,353")
    finish(workers)
    assert total(workers, "retransmissions") > 0
    said = server.stop()
    assert int(re.search(r"no room ([\d,]+)", said).group(1).replace(",", "")) > 0, said
    box.stop()
