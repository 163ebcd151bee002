"""Frames lost, copied, late, damaged; workers and boxes that die; over kernel ports and sockets."""
import time

from box import Job
from lab import case
from rack import run_rack
from socket_worker import start_sockets
from workers import UNTIL_TOLD, finish, go_on, kill_rank_1, total

STEADY = f"--sizes 50000,353 --gap 20 {UNTIL_TOLD}"


def impaired(lab, impair, driver="af_packet", sizes="100000,353"):
    job = Job(workers=3)
    rack = run_rack(lab, [job], impair=impair, driver=driver)
    workers = start_sockets(rack, job, f"--sizes {sizes} --iterations 3")
    finish(workers)
    return rack.stop(), workers


@case(waits=True)
def frames_lost(lab):
    """0.1 to 10 % of the frames of each port, each way, over both drivers."""
    for loss, driver in (("0.1%", "af_packet"), ("1%", "af_xdp"), ("10%", "af_packet")):
        sizes = "20000,353" if loss == "10%" else "30000,353"
        counted, workers = impaired(lab, f"loss: {loss}", driver, sizes)
        assert counted.core("lost_on_purpose_in") + counted.core("lost_on_purpose_out") > 0, counted.text
        assert total(workers, "retransmissions") > 0


@case("address")
def frames_lost_copied_late_and_damaged(lab):
    """Everything at once: bursts of losses, copies, reordering, flipped bits, delay."""
    counted, workers = impaired(lab, "loss: 1%, duplicate: 5%, reorder: 5%, corrupt: 2%, delay: 200us")
    assert total(workers, "retransmissions") > 0
    assert sum(sum(reasons.values()) for reasons in counted.drops.values()) > 0, counted.text


@case(waits=True)
def worker_killed_on_its_host(lab):
    """kill -9: the others hear within the lease and one second which rank is dead, and who joins anew goes on."""
    job = Job(workers=3, lease="3s")
    rack = run_rack(lab, [job])
    workers = start_sockets(rack, job, "--sizes 20000 --iterations 100000")
    for worker in workers:
        worker.wait_for("iteration", 3)
    kill_rank_1(rack, workers, lease=3)
    finish(start_sockets(rack, job, "--sizes 20000 --iterations 2"))
    rack.stop()


def box_killed(lab, driver):
    """kill -9 in the middle of operations and a new one: exact results, the same worker processes, a new epoch."""
    job = Job(workers=3)
    rack = run_rack(lab, [job], driver=driver)
    workers = start_sockets(rack, job, STEADY)
    for life in (1, 2):
        for worker in workers:
            worker.wait_for("iteration", 5 * life)
        rack.kill()
        time.sleep(0.2)
        rack.start()
    go_on(workers)
    finish(workers)
    for worker in workers:
        statistics = worker.statistics()
        assert statistics["epochs"] == 3 and statistics["generations"] == 1, statistics
    rack.stop()


@case(waits=True)
def box_killed_on_af_packet(lab):
    box_killed(lab, "af_packet")


@case("address")
def box_killed_on_af_xdp(lab):
    """Its XDP programs may still be on the interfaces when the new one comes."""
    box_killed(lab, "af_xdp")
