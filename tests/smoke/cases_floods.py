"""Who has a port and floods the box with control packets, and what others see of it."""
from box import Job
from floods import KINDS, CrowdedRack, turn_of_control
from lab import case
from programs import Programs
from socket_worker import start_sockets
from workers import UNTIL_TOLD, finish, go_on

SECONDS = 2
MOST_GROWTH = 4096  # KiB: what malloc may take and keep


@case("address")
def floods_beside_a_thousand_jobs(lab):
    """No lease is lost, every sum is right, memory stays what it is, control's turns stay short, drops have names."""
    job = Job(workers=2, token="secret", lease="3s")
    rack = CrowdedRack(lab, job).start()
    workers = start_sockets(rack, job, f"--sizes 20000,353 {UNTIL_TOLD}")
    resident = None
    for flood_round in range(2):
        for kind in KINDS:
            seen = len(workers[0].events("iteration"))
            flood = rack.flood(kind, SECONDS)
            assert flood.wait(60) == 0, flood.complained()
            assert int(flood.said()) > 10_000, flood.said()
            workers[0].wait_for("iteration", seen + 3)
        # The second round finds memory as the first has left it.
        if flood_round == 0:
            resident = rack.resident_kib()
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
