"""The schemes of docs/routes.md on running daemons, in network namespaces: 6 workers, two boxes that sum and a third that
only passes on, 2 servers. A scheme is a plan that tally_planned_box is given."""
import pathlib
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent.parent / "tests"
sys.path[:0] = [str(TESTS / "smoke"), str(TESTS / "process")]
# pylint: disable=wrong-import-position
from box import Job  # noqa: E402
from lab import Lab  # noqa: E402
from programs import Programs  # noqa: E402
from several_boxes import SeveralBoxes, address_of_box, shape  # noqa: E402

GROUPS = 1024
PASSES, FIRST, SECOND = 0, 1, 2  # boxes, in the order of a plan
WORKERS = 6
OF_FIRST_RACK = 5
# In units of 1/2 of what LBMM leaves to a worker: what boxes take in to sum, and servers to merge.
BOX = {FIRST: 1.875, SECOND: 1.725}
SERVER = (6.0, 11.4156)
FRAME_BITS = 1506 * 8  # 352 values with IPv4, as a queue counts it
DIRECT = 0x80


def interleaved(counts):
    """A sequence in which i stands counts[i] times, evenly spread."""
    steps = sorted(((j + 0.5) / count, i) for i, count in enumerate(counts) for j in range(count))
    return [i for _, i in steps]


def whole(amounts, total):
    """By largest remainder."""
    scaled = [amount * total / sum(amounts) for amount in amounts]
    counts = [int(value) for value in scaled]
    for i in sorted(range(len(amounts)), key=lambda i: counts[i] - scaled[i])[:total - sum(counts)]:
        counts[i] += 1
    return counts


class Scheme:
    """rate: every worker's, in units, by the closed form. shares: of the servers, and of what boxes sum. parts: {box: part of the
    gradient}, of the ranks of the first rack and of the others."""

    def __init__(self, name, rate, shares, of_sums, *parts):
        self.name, self.rate, self.shares, self.of_sums, self.parts = name, rate, shares, of_sums, parts

    def plan(self):
        """As it travels (include/tally/plan.h)."""
        boxes = (PASSES, FIRST, SECOND)
        places = [interleaved(whole([1 - sum(parts.values()), parts.get(FIRST, 0), parts.get(SECOND, 0)], GROUPS)) for parts in self.parts]
        order = max(places, key=lambda of: len(set(of)))  # all racks have the same server for a group
        counts = {place: whole(self.of_sums, order.count(place)) for place in (FIRST, SECOND)}
        left = [every - sum(of[s] for of in counts.values()) for s, every in enumerate(whole(self.shares, GROUPS))]
        of_place = {place: interleaved(of) for place, of in {**counts, PASSES: left}.items()}
        servers = [of_place[place].pop(0) for place in order]
        addresses = b"".join(bytes(10) + b"\xff\xff" + bytes(map(int, address_of_box(box).split("."))) for box in boxes)
        tables = [bytes(place | DIRECT * (place == PASSES) for place in of) for of in places]
        return (struct.pack("8B", 1, len(boxes), 2, len(self.shares), WORKERS, 0, 0, 0) + addresses +
                bytes(rank >= OF_FIRST_RACK for rank in range(WORKERS)) + bytes(servers) + b"".join(tables))


def schemes():
    """With equal parts at the servers all that boxes can sum is of the narrower one's part, which else would be full."""
    narrow, even, of_narrow = SERVER[0], (0.5, 0.5), (1, 0)
    none = 2 * narrow / WORKERS
    alone = BOX[FIRST] / OF_FIRST_RACK  # of each worker, at its rack's box; the other rack has one worker, and nothing to merge
    own = 2 * (narrow + (OF_FIRST_RACK - 1) * alone) / WORKERS
    common = {box: rate / WORKERS for box, rate in BOX.items()}
    merged = (WORKERS - 1) * sum(common.values())
    routes, all_of_it = 2 * (narrow + merged) / WORKERS, (sum(SERVER) + merged) / WORKERS

    def parts(rate):
        return {box: of / rate for box, of in common.items()}
    return (Scheme("no aggregation", none, even, of_narrow, {}, {}),
            Scheme("ATP, own rack", own, even, of_narrow, {FIRST: alone / own}, {}),
            Scheme("equal split, planned ways", routes, even, of_narrow, parts(routes), parts(routes)),
            Scheme("planned", all_of_it, SERVER, SERVER, parts(all_of_it), parts(all_of_it)))


class TestBed:
    """A scheme, running; unit in bit/s."""

    def __init__(self, lab, scheme, unit, window):
        file = pathlib.Path(lab.directory, "plan")
        file.write_bytes(scheme.plan())
        lab.variables["TALLY_BENCH_PLAN"] = str(file)
        job = Job("vgg", workers=WORKERS, servers=len(SERVER), discipline="shared", lease="100s", window=window)
        self.boxes = SeveralBoxes(lab, job, boxes=3)
        switch, hosts = self.boxes.home.switch, self.boxes.hosts
        servers = [hosts[WORKERS + index] for index in range(len(SERVER))]
        for box, rate in BOX.items():  # results come from servers, and are not what is planned
            shape(switch, f"box{box}", rate * unit, [server.ipv4 for server in servers])
        for server, rate in zip(servers, SERVER):
            shape(switch, f"p{server.port}", rate * unit)
        self.boxes.start()

    def seconds(self, chunks, rounds):
        """Of each round, from when the last rank begins to when the last one has all sums; the first is not measured."""
        workers = self.boxes.start_workers(f"--dtype int32 --sizes {352 * chunks} --iterations {rounds + 1}")
        for worker in workers:
            assert worker.program.wait(seconds=60 + 60 * (rounds + 1)) == 0
        said = [worker.events("iteration") for worker in workers]
        assert not any(event["wrong"] for events in said for event in events), "a sum was wrong"
        again = sum(worker.wait_for("statistics")["retransmissions"] for worker in workers)
        return [(max(event["ended_us"] for event in of_round) - max(event["began_us"] for event in of_round)) / 1e6
                for of_round in list(zip(*said))[1:]], again


def measure(programs, unit, window, chunks, rounds, names=None):
    """By scheme: its closed form, Mbit/s of every worker, and what was measured in each round."""
    for name, path in programs.items():
        setattr(Programs, name, str(path))
    figures = {}
    for scheme in schemes():
        if names and scheme.name not in names:
            continue
        lab = Lab()
        try:
            seconds, again = TestBed(lab, scheme, unit, window).seconds(chunks, rounds)
        except Exception:
            lab.print_logs(2000)
            raise
        finally:
            lab.close()
        rates = [chunks * FRAME_BITS / each / 1e6 for each in seconds]
        figures[scheme.name] = {"closed_form": scheme.rate * unit / 1e6, "measured": rates, "seconds": seconds, "again": again,
                                "contributions": WORKERS * chunks * (rounds + 1)}
        print(f"{scheme.name:28} closed form {scheme.rate * unit / 1e6:6.2f} Mbit/s, measured {', '.join(f'{rate:.2f}' for rate in rates)}, "
              f"sent again {again}", flush=True)
    return figures
