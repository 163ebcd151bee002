"""Sums over kernel sockets, kernel ports and the box between them, when nothing goes wrong."""
from box import Job
from lab import case
from page_member import PageMember
from rack import run_rack
from socket_worker import SocketServer, SocketWorker, start_sockets
from workers import TestWorker, finish

# The largest of af_xdp.
LARGEST_AF_XDP = 3438
LARGEST_ELEMENTS = 832
MIXED = "--sizes 100000,353+704+1,16,5000 --iterations 3"


def elements(workers):
    return {worker.events("joined")[0]["elements"] for worker in workers}


def sums_over(lab, driver, ipv6=False, **options):
    job = Job(workers=3, results=options.pop("results", "unicast"), elements=options.pop("elements", 0))
    rack = run_rack(lab, [job], driver=driver, **options)
    workers = start_sockets(rack, job, MIXED, ipv6=ipv6)
    finish(workers)
    rack.stop()
    return workers


@case(waits=True)
def sums_over_ipv4_and_af_packet(lab):
    """Three hosts, ARP, plain sockets."""
    assert elements(sums_over(lab, "af_packet")) == {352}


@case(waits=True)
def sums_over_ipv6_and_af_packet(lab):
    assert elements(sums_over(lab, "af_packet", ipv6=True)) == {336}


@case()
def sums_over_ipv4_and_af_xdp(lab):
    assert elements(sums_over(lab, "af_xdp")) == {352}


@case()
def sums_over_ipv6_and_af_xdp(lab):
    assert elements(sums_over(lab, "af_xdp", ipv6=True)) == {336}


@case(waits=True)
def jumbo_frames_on_af_packet(lab):
    """MTU 9000: 2,224 values in a packet."""
    assert elements(sums_over(lab, "af_packet", mtu=9000, elements=2224)) == {2224}


@case()
def largest_frames_on_af_xdp(lab):
    """What a page of memory carries beside what the driver needs."""
    assert elements(sums_over(lab, "af_xdp", mtu=LARGEST_AF_XDP, elements=LARGEST_ELEMENTS)) == {LARGEST_ELEMENTS}


@case(waits=True)
def multicast_results_on_kernel_ports(lab):
    """The hosts' kernels join the groups of both families; over af_packet and af_xdp."""
    for driver, ipv6 in (("af_packet", False), ("af_xdp", True)):
        workers = sums_over(lab, driver, ipv6=ipv6, results="multicast")
        assert all(worker.events("joined")[0]["multicast"] == 1 for worker in workers)


@case(waits=True)
def the_client_of_the_page_beside_libtally(lab):
    """Two ranks are libtally's, one was written from the page: everybody's sums are right, and the same bits."""
    job = Job(workers=3, token="s3cret")
    rack = run_rack(lab, [job])
    for dtype in ("float32", "int32"):
        script = f"--sizes 2000,353 --iterations 3 --dtype {dtype}"
        finish([*(SocketWorker(rack.hosts[rank], job, rank, script) for rank in (0, 2)),
                PageMember(rack.hosts[1], job, 1, script)])
    rack.stop()


@case(waits=True)
def sixty_four_ranks(lab):
    """On four hosts, sixteen in each process: every rank has the sum of all."""
    job = Job(workers=64)
    rack = run_rack(lab, [job], hosts=4, mtu=1500)
    workers = [SocketWorker(rack.hosts[n], job, 16 * n, "--sizes 5000,16 --iterations 2",
                            ranks_beside=range(16 * n + 1, 16 * n + 16)) for n in range(4)]
    results = finish(workers)
    for worker in workers:
        for rank in range(worker.rank, worker.rank + 16):
            assert worker.crcs(rank) == results, rank
    rack.stop()


@case("release", "address", waits=True)
def memif_and_kernel_ports_in_one_job(lab):
    """Ranks on a memif, an af_packet and an af_xdp port sum together."""
    job = Job(workers=3)
    rack = run_rack(lab, [job], driver=("memif", "af_packet", "af_xdp"))
    workers = [TestWorker(rack, job, 0, MIXED), *(SocketWorker(rack.hosts[rank], job, rank, MIXED) for rank in (1, 2))]
    finish(workers)
    rack.stop()


@case(waits=True)
def workers_on_the_machine_of_the_box(lab):
    """A tap port is an interface of the box's own machine: two ranks there, a third on a host."""
    job = Job(workers=3)
    rack = run_rack(lab, [job], driver=("tap", "af_packet"), hosts=2)
    workers = [SocketWorker(rack.hosts[host], job, rank, MIXED) for rank, host in enumerate((0, 0, 1))]
    finish(workers)
    rack.stop()


@case(waits=True)
def external_server_over_sockets(lab):
    """tally-ps on a host, with kernel sockets; some chunks are summed there."""
    job = Job("job", discipline="shared", elements=32, servers=1)
    rack = run_rack(lab, [job], shared_slots=8)
    server = SocketServer(rack.hosts[2], [job])
    finish(start_sockets(rack, job, "--sizes 10000,353 --iterations 3"))
    server.stop()
    line = rack.stop().slots[job.name]
    assert line["served"] > 0 and line["denied"] + line["evicted"] > 0, line
