"""The box as a switch between plain hosts, and as a host that answers for its own address."""
import json
import pathlib
import sys
import time

from box import Job
from lab import case
from namespace import need
from one_arm import run_one_arm
from programs import wait_until
from rack import BOX_MAC, Rack, run_rack
from socket_worker import SocketWorker, start_sockets
from workers import finish

HEADERS = 28  # IPv4 and ICMP
FIRST_FRAMES = pathlib.Path(__file__).with_name("first_frames.py")


def idle_rack(lab, hosts, **options):
    """A box whose job nobody joins."""
    need("ping")
    return run_rack(lab, [Job()], hosts=hosts, **options)


@case("address")
def ping_of_the_box(lab):
    """ARP, neighbour discovery, echo of both families from the smallest to the full MTU; also one-arm."""
    for mode in ("inline", "one-arm"):
        rack = idle_rack(lab, 1, mode=mode)
        host, mtu = rack.hosts[0], rack.options.mtu
        for size in (0, 1, 56, mtu - HEADERS):
            assert host.ping("10.0.0.254", size=size), size
        for size in (0, 56, mtu - HEADERS - 20):
            assert host.ping("fd00::fe", size=size), size
        neighbours = host.call("ip", "neighbour")
        assert neighbours.count(BOX_MAC) >= 2, neighbours
        rack.stop()


@case(waits=True)
def ping_between_hosts(lab):
    """Through the box at the full MTU, ARP and neighbour discovery too; not in one-arm mode."""
    rack = idle_rack(lab, 3)
    for a, b in ((0, 1), (1, 2), (2, 0)):
        for size in (0, 56, rack.options.mtu - HEADERS):
            assert rack.hosts[a].ping(rack.hosts[b].ipv4, size=size), size
        assert rack.hosts[a].ping(rack.hosts[b].ipv6, size=rack.options.mtu - HEADERS - 20)
    rack.stop()
    rack = idle_rack(lab, 2, mode="one-arm")
    assert rack.hosts[0].ping("10.0.0.254")
    silence = rack.hosts[0].call("ping", "-n", "-c", "1", "-W", "0.3", rack.hosts[1].ipv4, fails=True)
    assert "100% packet loss" in silence, silence
    rack.stop()


@case(waits=True)
def frames_are_flooded_and_learned(lab):
    """To a stranger: to all ports but the one it came from. To a known host: to that one only."""
    rack = idle_rack(lab, 3, addresses=False)
    ours = [host.mac() for host in rack.hosts]
    # The box announces both its addresses twice, a second apart.
    wait_until("the announcements", lambda: all(host.frames_in() >= 4 for host in rack.hosts))
    stranger = "02:00:00:00:00:99"

    def hears(source, destination, *expected):
        """Five frames; how many of them each host gets."""
        before = [host.frames_in() for host in rack.hosts]
        in_box = rack.counters().port("rx_packets")
        rack.hosts[source].send_frames(destination, 5)
        # A box that had no CPU yet has nothing to flood yet.
        wait_until("the box to take the five frames", lambda: rack.counters().port("rx_packets") >= in_box + 5)

        def heard():
            return [host.frames_in() - old for host, old in zip(rack.hosts, before)]

        wait_until(lambda: f"{expected} frames; {heard()} came", lambda: heard() == list(expected))
        # What must not come has had its time: the port counts it once more in the meantime. An answer is kept for 20 ms.
        time.sleep(0.05)
        assert rack.counters().port("rx_packets") == in_box + 5 and heard() == list(expected), heard()

    hears(0, stranger, 0, 5, 5)
    hears(0, "ff:ff:ff:ff:ff:ff", 0, 5, 5)
    hears(1, ours[0], 5, 0, 0)
    hears(0, ours[1], 0, 5, 0)
    hears(2, ours[2], 0, 0, 0)  # known behind the port it came from
    hears(0, BOX_MAC, 0, 0, 0)  # for the box, and nobody serves it
    hears(0, "01:80:c2:00:00:00", 0, 0, 0)  # 802.1D keeps these to one link
    rack.stop()


def iperf(rack, *words):
    """What iperf3 says at the end of a stream from host 1 to host 0."""
    server, client = rack.hosts
    program = server.namespace.run("iperf", ["iperf3", "--server", "--one-off"])
    wait_until("iperf3 to listen", lambda: "5201" in server.call("ss", "-tln"))
    text = client.call("iperf3", "--client", server.ipv4, "--json", *words, fails=True)
    said = json.loads(text[text.index("{"):])  # a warning may stand before it
    assert "error" not in said, said["error"]
    program.wait()
    return said["end"]


@case(waits=True)
def streams_between_hosts(lab):
    """iperf3 through the box: TCP, and UDP with datagrams of the full MTU, over both drivers. No figure is expected."""
    need("iperf3")
    for driver in ("af_packet", "af_xdp"):
        rack = idle_rack(lab, 2, driver=driver)
        assert iperf(rack, "--bytes", "20M")["sum_received"]["bytes"] > 2**20
        size = str(rack.options.mtu - 28)
        udp = iperf(rack, "--udp", "--bandwidth", "50M", "--bytes", "2M", "--length", size)["sum"]
        assert udp["packets"] > udp["lost_packets"], udp
        rack.stop()


@case(waits=True)
def sums_beside_other_traffic(lab):
    """A job of one host's and another's workers, while the same hosts ping each other through the box."""
    need("ping")
    job = Job(workers=2)
    rack = run_rack(lab, [job])
    workers = start_sockets(rack, job, "--sizes 50000,353 --iterations 10")
    assert all(rack.hosts[0].ping(rack.hosts[1].ipv4, size=rack.options.mtu - HEADERS) for _ in range(10))
    finish(workers)
    counted = rack.stop()
    assert counted.jobs[job.name]["results"] > 0, counted.text


@case("address")
def box_on_one_arm(lab):
    """All ranks come through one port, from behind a switch that is not ours; it learns the box's groups from the
    hosts, and who is in none hears nothing of them."""
    need("ping")
    jobs = [Job("single"), Job("group", results="multicast")]
    rack = run_one_arm(lab, jobs, hosts=3)
    assert rack.hosts[2].ping("10.0.0.254") and rack.hosts[2].ping("fd00::fe")
    for job in jobs:
        before = rack.hosts[2].frames_in()
        finish(start_sockets(rack, job, "--sizes 50000,353 --iterations 3"))
        stray = rack.hosts[2].frames_in() - before
        assert stray < 50, f"{stray} frames came to a host that has no part in job '{job.name}'"
    rack.stop()


@case(waits=True)
def dpdk_worker_behind_a_switch_that_snoops(lab):
    """A worker without a kernel reports its group itself, or the switch would keep the results from it. Each says so
    before it contributes: the kernel's own report takes its time, and the first results would be lost."""
    job = Job("group", results="multicast")
    rack = run_one_arm(lab, [job], hosts=2)
    listeners = [rack.switch.run(f"p{n}", [sys.executable, "-B", str(FIRST_FRAMES), f"p{n}"]) for n in (0, 1)]
    for listener in listeners:
        wait_until("a listener", listener.said)
    rack.hosts[1].call("ip", "address", "flush", "dev", "eth0")  # its kernel must not answer for it
    script = "--sizes 50000,353 --iterations 3"
    own = {"TALLY_TRANSPORT": "dpdk:net_af_packet0,iface=eth0", "TALLY_ADDRESS": f"{rack.hosts[1].ipv4}/24"}
    finish([SocketWorker(rack.hosts[0], job, 0, script), SocketWorker(rack.hosts[1], job, 1, script, environment=own)])
    members = rack.switch.call("bridge", "mdb", "show", "dev", "br0")
    assert "port p0 grp 239.192.0.1 " in members and "port p1 grp 239.192.0.1 " in members, members
    for listener in listeners:
        assert listener.wait() == 0
        assert listener.said().split("\n")[1:3] == ["report 239.192.0.1", "contribution"], listener.said()
    rack.stop()


@case(waits=True)
def thirty_two_ports(lab):
    """As many as a box has, of the cheapest kind; a 33rd is refused by name."""
    rack = run_rack(lab, [Job(workers=1)], driver="null", hosts=32)
    assert len(rack.counters().ports) == 32
    rack.stop()
    rack = Rack(lab, [Job(workers=1)], driver="null", hosts=33)
    assert rack.launch().wait() == 1
    assert "33 ports" in rack.daemon.complained() and "32" in rack.daemon.complained(), rack.daemon.complained()
