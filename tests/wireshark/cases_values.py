"""Values, their sums, and where our packets are recognised."""
from dataclasses import replace

import wire_headers
from capture import Tshark
from lab import case
from samples import JOB, joined, result
from tally_wire import BASE_PORT, RESULT, encapsulate, pack_header

VERIFY = ("-o", "tally.sums:TRUE")
MANY_VALUES = ("-o", "tally.values:3000")


@case()
def values_are_bounded(lab):
    """Eight of them as numbers, as many as the preference says, all as bytes."""
    tshark = Tshark(lab)
    numbers = list(range(-1112, 1112))
    frame = JOB.contribute(0, 5, numbers).frame()
    few = tshark.packets([frame])[0]
    assert list(map(int, few.all("tally.value"))) == numbers[:8]
    assert few.place("tally.values") == (42 + 56, 4 * 2224)
    assert tshark.packets([frame], "-o", "tally.values:0")[0].all("tally.value") == []
    assert list(map(int, tshark.packets([frame], *MANY_VALUES)[0].all("tally.value"))) == numbers


@case()
def sums_are_verified_when_asked(lab):
    """Fully when the capture has the JOINED; without it sum2 alone, and that is said; a server's RESULT too."""
    tshark = Tshark(lab)
    good = [JOB.contribute(0, 5, list(range(32))).frame(), result(JOB, 0, 5)]
    server = result(JOB, 0, 5, rank=0xFF00, contributors=2)
    assert [packet.all("tally.sum.status") for packet in tshark.packets(good)] == [[], []]
    with_key = tshark.packets([joined(JOB), *good, server], *VERIFY)[1:]
    assert [packet.one("tally.sum.status") for packet in with_key] == ["1"] * 3
    without = tshark.packets(good, *VERIFY)
    assert [packet.one("tally.sum.status") for packet in without] == ["2"] * 2
    assert not any(packet.has_error() for packet in without)
    contribution = JOB.contribute(0, 5, list(range(16)))
    exchanged = replace(contribution, body=contribution.body[4:8] + contribution.body[:4] + contribution.body[8:])
    wrong = {"of another chunk": contribution.but(chunk=6, slot=6).frame(), "two values exchanged": exchanged.frame(),
             "somebody is missing": result(JOB, 0, 5, contributors=1)}
    for (name, frame), packet in zip(wrong.items(), tshark.packets([joined(JOB), *wrong.values()], *VERIFY)[1:]):
        assert packet.one("tally.sum.status") == "0", name
        assert packet.remarks() == {"tally.sum.bad"} and packet.has_error(), name
        assert tshark.info([joined(JOB), frame], *VERIFY)[1].endswith(" [sum]"), name


@case()
def other_ports_are_recognised(lab):
    """0xBF00..0xBF3F and 0xBFFF whatever they carry; elsewhere what has a right check, and nothing else."""
    tshark = Tshark(lab)
    good, bad = JOB.query(0, 1, 5), JOB.query(0, 1, 5).but(check=1)

    def protocols(packet, port):
        return tshark.packets([packet.around(udp_destination=port).frame()])[0].protocols

    for port in (BASE_PORT, BASE_PORT + 63, wire_headers.constant("kMulticastPort")):
        assert protocols(good, port)[-1] == protocols(bad, port)[-1] == "tally", port
    for port in (BASE_PORT + 64, 6000):
        assert protocols(good, port)[-1] == "tally" and "tally" not in protocols(bad, port), port
    elsewhere = encapsulate(JOB.box, JOB.addresses[0], 7000, pack_header({**good.header, "type": RESULT}))
    assert tshark.packets([elsewhere])[0].number("tally.type") == RESULT
