"""The client that was written from docs/protocol.md (page_client.py), against a real box."""
import time

from box import Job
from lab import case
from page_member import PageMember, probe
from rack import run_rack
from socket_worker import SocketServer
from workers import finish

SMALL = "--sizes 1000,5 --iterations 2"


def start_pages(rack, job, *script, **options):
    """All ranks of a job."""
    return [PageMember(rack.hosts[job.first_port + rank], job, rank, *script, **options) for rank in range(job.workers)]


@case("address")
def client_of_the_page_alone(lab):
    """Two such clients join, sum integers and floats, and leave; every sum is right. A third has the wrong token."""
    job = Job(workers=2, token="s3cret")
    rack = run_rack(lab, [job], hosts=3)
    for dtype in ("int32", "float32", "exact"):
        finish(start_pages(rack, job, SMALL, f"--dtype {dtype}"))
    stranger = PageMember(rack.hosts[2], Job(job.name, token="secret"), 0)
    assert "wrong token" in stranger.error()["text"]
    counted = rack.stop()
    assert counted.jobs[job.name]["phase"] == "ended", counted.text
    # The first JOIN of each process, and its repetitions on a busy machine.
    assert counted.not_obeyed.keys() == {"challenge", "token"} and counted.not_obeyed["token"] == 1, counted.text
    assert counted.not_obeyed["challenge"] >= 5, counted.text


@case(waits=True)
def client_over_ipv6_stays_by_heartbeats(lab):
    """Idle for two leases between two sums: each HEARTBEAT is echoed, and nobody is given up."""
    job = Job(workers=2, lease="3s")
    rack = run_rack(lab, [job])
    members = start_pages(rack, job, SMALL, "--elements 336 --gap 6200", ipv6=True)
    finish(members)
    assert all(member.events("joined")[0]["elements"] == 336 for member in members)
    assert all(member.statistics()["echoes"] >= 3 for member in members)
    rack.stop()


@case(waits=True)
def client_takes_multicast_results(lab):
    """To sockets that joined the group, over IPv4 and IPv6, and to frames made by hand."""
    jobs = [Job("v4", results="multicast"), Job("v6", results="multicast")]
    rack = run_rack(lab, jobs)
    members = start_pages(rack, jobs[0], SMALL), start_pages(rack, jobs[1], SMALL, "--elements 336", ipv6=True)
    for pair in members:
        finish(pair)
        assert all(member.events("joined")[0]["multicast"] == 1 for member in pair)
        assert all(member.statistics()["grouped"] >= 10 for member in pair), "results did not come to the group"
    rack.stop()


@case(waits=True)
def client_in_a_vlan(lab):
    """Ranks behind tag 7, tag 0 and no tag in one job: each gets its results under its own tag, and no other."""
    job = Job(workers=3)
    rack = run_rack(lab, [job], addresses=False)
    ways = ("--vlan 7", "--vlan 0", "")
    finish([PageMember(rack.hosts[rank], job, rank, SMALL, ways[rank], frames=True) for rank in range(3)])
    rack.stop()
    finished = Job(workers=3, results="multicast")
    rack = run_rack(lab, [finished], addresses=False)
    members = [PageMember(rack.hosts[rank], finished, rank, SMALL, "--vlan 7", frames=True) for rank in range(3)]
    finish(members)
    assert all(member.statistics()["grouped"] >= 10 for member in members)
    rack.stop()


@case(waits=True)
def client_survives_the_box(lab):
    """kill -9 of tallyd and a new one: the same clients go on with the numbers they have, and every sum is right."""
    job = Job(workers=3)
    rack = run_rack(lab, [job])
    members = start_pages(rack, job, "--sizes 700 --iterations 16 --gap 20")
    for life in (1, 2):
        for member in members:
            member.wait_for("iteration", 5 * life)
        rack.kill()
        time.sleep(0.2)
        rack.start()
    finish(members)
    assert all(member.statistics()["epochs"] == 3 for member in members)
    assert len({member.events("joined")[0]["generation"] for member in members}) == 1
    rack.stop()


@case(waits=True)
def client_among_losses(lab):
    """3 % of all frames lost, each way: timers, QUERY and ANSWER heal it."""
    job = Job(workers=3)
    rack = run_rack(lab, [job], impair="loss: 3%")
    members = start_pages(rack, job, "--sizes 20000")
    finish(members)
    assert sum(member.statistics()["retransmissions"] for member in members) > 0
    counted = rack.stop()
    assert counted.core("lost_on_purpose_in") > 0 and counted.core("lost_on_purpose_out") > 0, counted.text


@case(waits=True)
def client_that_aborts_or_dies(lab):
    """ABORT tells the others at once, a death within the lease; both are told which rank it was."""
    job = Job(workers=2, lease="3s")
    rack = run_rack(lab, [job])
    for ending, words in (("abort", "rank 1: the client was told to"), ("vanish", "rank 1")):
        stays = PageMember(rack.hosts[0], job, 0, "--sizes 100 --iterations 1000 --gap 10")
        PageMember(rack.hosts[1], job, 1, f"--sizes 100 --iterations 3 --gap 10 --ending {ending}").program.wait()
        error = stays.error()
        assert error["code"] == "aborted" and words in error["text"], error
    rack.stop()


@case(waits=True)
def client_probes_the_path(lab):
    """PROBE comes back as it was up to the path's MTU, to a stranger too; one byte more does not leave the host."""
    rack = run_rack(lab, [Job(workers=1)])
    largest = rack.options.mtu - 28 - 56
    found = probe(rack.hosts[0], [0, 1, 1000, largest, largest + 1])
    assert found == {"0": True, "1": True, "1000": True, str(largest): True, str(largest + 1): False}, found
    rack.stop()


@case(waits=True)
def client_of_jobs_that_share_slots(lab):
    """The slots of each discipline, far fewer than chunks; what finds none is summed in the box, or by a tally-ps,
    which asks for contributions again."""
    jobs = [Job("shared", discipline="shared", elements=32), Job("fcfs", discipline="fcfs", elements=32),
            Job("preemptive", discipline="preemptive", elements=32),
            Job("external", discipline="shared", elements=32, servers=1)]
    rack = run_rack(lab, jobs, shared_slots=4, driver="af_xdp", impair="loss: 1%")
    server = SocketServer(rack.hosts[-1], jobs[-1:])
    for job in jobs:
        finish(start_pages(rack, job, "--sizes 2000,5 --dtype int32"))
    server.stop()
    counted = rack.stop()
    assert all(counted.slots[job.name]["served"] > 0 for job in jobs), counted.text
