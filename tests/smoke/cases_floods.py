"""Who has a port and floods the box with control packets, and what others see of it."""
from box import Job
from counters import call
from floods import GREEDY, KINDS, TENANT_KINDS, CrowdedRack, turn_of_control
from lab import case
from programs import Programs
from socket_worker import start_sockets
from workers import UNTIL_TOLD, finish, go_on

SECONDS = 2
MOST_GROWTH = 4096  # KiB: what malloc may take and keep


@case()
def floods_beside_a_thousand_jobs(lab):
    """No lease is lost, every sum is right, memory stays what it is, control's turns stay short, drops have names."""
    job = Job(workers=2, token="secret", lease="3s")
    rack = CrowdedRack(lab, job).start()
    workers = start_sockets(rack, job, f"--sizes 20000,353 {UNTIL_TOLD}")
    resident = None
    for seconds in (SECONDS / 2, SECONDS):
        for kind in KINDS:
            seen = len(workers[0].events("iteration"))
            flood = rack.flood(kind, seconds)
            assert flood.wait() == 0, flood.complained()
            assert int(flood.said()) > 5_000 * seconds, flood.said()
            workers[0].wait_for("iteration", seen + 3)
        # The second round finds memory as the first has left it.
        resident = resident or rack.resident_kib()
    grown = rack.resident_kib() - resident
    assert grown <= MOST_GROWTH or Programs.sanitizer, f"tallyd has grown by {grown} KiB"
    go_on(workers)
    finish(workers)
    for worker in workers:
        statistics = worker.statistics()
        assert statistics["epochs"] == 1 and statistics["generations"] == 1, statistics
    counted = rack.stop()
    assert len(counted.jobs) == 1024, len(counted.jobs)
    for reason in ("source_budget", "port_budget"):
        assert counted.drops[""].get(reason, 0) > 0, counted.drops[""]
    assert not any("member_budget" in reasons for reasons in counted.drops.values()), counted.drops
    mean, _ = turn_of_control(counted)
    assert mean <= 200 or Programs.sanitizer, f"a turn of control takes {mean} us"


@case()
def floods_of_a_tenant_stay_in_its_quotas(lab):
    """A member that floods with data gets what its job's quotas allow; the neighbour's sums are right and go on, no lease is
    lost, his own neither."""
    job = Job(workers=2, token="secret", lease="3s")
    rack = CrowdedRack(lab, job).start()

    def shown():
        return call(rack.control, "job.show", name=GREEDY.name)

    assert (shown()["packet_rate"], shown()["bad_packet_rate"]) == (2000, 100), shown()
    workers = start_sockets(rack, job, f"--sizes 20000,353 {UNTIL_TOLD}")
    workers[0].wait_for("iteration", 1)
    for kind in TENANT_KINDS:
        before = shown()
        seen = len(workers[0].events("iteration"))
        # Longer than a lease.
        flood = rack.flood(kind, SECONDS + 1)
        assert flood.wait(60) == 0, flood.complained()
        sent = int(flood.said())
        assert sent > 10_000, sent
        workers[0].wait_for("iteration", seen + 3)
        after = shown()
        dropped = {name: count - before["dropped"].get(name, 0) for name, count in after["dropped"].items()}
        # What a burst and three seconds have room for, and as much again for a slow machine, was taken.
        most = 2 * (512 + 2000 * (SECONDS + 1))
        assert dropped.get("packet_rate", 0) + dropped.get("bad_packet_rate", 0) > sent / 2 - most, (kind, sent, dropped)
        if kind == "questions":
            answered = sum(after[what] - before[what] for what in ("repeats", "relays"))
            assert 0 < answered <= most, (sent, before, after)
        elif kind == "copies":
            assert 0 < dropped["replay"] <= most, (sent, dropped)
        else:
            assert 0 < dropped["sum"] <= 2 * (64 + 100 * (SECONDS + 1)), (sent, dropped)
            assert dropped["bad_packet_rate"] > 0, (sent, dropped)
    go_on(workers)
    finish(workers)
    for worker in workers:
        statistics = worker.statistics()
        assert statistics["epochs"] == 1 and statistics["generations"] == 1, statistics
    dropped = rack.stop().drops
    assert not {"packet_rate", "bad_packet_rate"} & dropped.get(job.name, {}).keys(), dropped
