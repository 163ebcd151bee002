"""Values, their sums, and where our packets are recognised."""
from dataclasses import replace

import wire_headers
from capture import Tshark
from fixture_jobs import make_job
from lab import case
from samples import JOB, joined, result
from tally_wire import BASE_PORT, FLOAT32, INT16, RESULT, ZERO, encapsulate, pack_header

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

    def good(job):
        return [job.contribute(0, 5, list(range(32))).frame(), result(job, 0, 5)]

    server = result(JOB, 0, 5, rank=0xFF00, contributors=2)
    contribution = JOB.contribute(0, 6, list(range(16)))
    exchanged = replace(contribution, body=contribution.body[4:8] + contribution.body[:4] + contribution.body[8:])
    wrong = {"of another chunk": contribution.but(chunk=7).frame(), "two values exchanged": exchanged.frame(),
             "somebody is missing": result(JOB, 0, 6, contributors=1)}
    right = [joined(JOB), *good(JOB), server]
    path = tshark.capture([*right, *good(make_job("unknown", 8, 2)), *wrong.values()])
    assert not any(packet.all("tally.sum.status") for packet in tshark.packets(path))
    packets = tshark.packets(path, *VERIFY)
    with_key, without, broken = packets[1:4], packets[4:6], packets[6:]
    assert [packet.one("tally.sum.status") for packet in with_key] == ["1"] * 3
    assert [packet.one("tally.sum.status") for packet in without] == ["2"] * 2
    assert not any(packet.has_error() for packet in with_key + without)
    assert len(broken) == len(wrong)
    for name, packet, info in zip(wrong, broken, tshark.info(path, *VERIFY)[6:]):
        assert packet.one("tally.sum.status") == "0", name
        assert packet.remarks() == {"tally.sum.bad"} and packet.has_error(), name
        assert info.endswith(" [sum]"), name


@case()
def halves_and_zeros(lab):
    """int16: two values in a word, sign-extended. ZERO: none, and the sums are right without. Not a number is named."""
    tshark = Tshark(lab)
    numbers = [1, -1, 32767, -32768] * 8
    frames = [joined(JOB), JOB.contribute(0, 5, numbers, dtype=INT16).frame(),
              JOB.contribute(1, 5, [0] * 32, dtype=INT16, flags=ZERO).frame(),
              JOB.contribute(0, 6, [], dtype=FLOAT32, exponent=127).frame(),
              JOB.contribute(0, 7, numbers, dtype=INT16).but(sum2=1).frame()]
    path = tshark.capture(frames)
    halves, zeros, _, wrong = tshark.packets(path, *VERIFY, *MANY_VALUES)[1:]
    assert list(map(int, halves.all("tally.value"))) == numbers and halves.place("tally.values") == (42 + 56, 64)
    assert zeros.all("tally.value") == [] and zeros.one("tally.flags.zero") in ("1", "True")
    assert [packet.one("tally.sum.status") for packet in (halves, zeros, wrong)] == ["1", "1", "0"]
    assert not halves.has_error() and not zeros.has_error()
    short = replace(JOB.contribute(1, 5, [0] * 32, dtype=INT16), body=b"").frame()
    assert tshark.packets([short])[0].remarks() == {"tally.length.bad"}


@case()
def runs_have_the_exponents_of_their_chunks(lab):
    """One for each, in the order of the bits, or one in the header; another number of bytes is an error."""
    tshark = Tshark(lab)
    own = JOB.zero_run(0, 5, 0b110101, 0, (-3, 4, -127, 127), dtype=FLOAT32)
    frames = [own.frame(), JOB.zero_run(1, 5, 0b11, 0, dtype=FLOAT32, exponent=7).frame(),
              JOB.zero_run(0, 5, 0b11111, 0, (1, 2, 3, 4, 5), dtype=FLOAT32).frame(), replace(own, body=own.body[:3]).frame()]
    each, alike, padded, short = tshark.packets(frames)
    assert list(map(int, each.all("tally.run.exponent"))) == [-3, 4, -127, 127]
    assert alike.all("tally.run.exponent") == [] and alike.one("tally.exponent") == "7"
    assert list(map(int, padded.all("tally.run.exponent"))) == [1, 2, 3, 4, 5]
    assert not any(packet.has_error() for packet in (each, alike, padded))
    assert short.remarks() == {"tally.length.bad"}


@case()
def other_ports_are_recognised(lab):
    """0xBF00..0xBF3F and 0xBFFF whatever they carry; elsewhere what has a right check, and nothing else."""
    good, bad = JOB.query(0, 1, 5), JOB.query(0, 1, 5).but(check=1)
    ours = (BASE_PORT, BASE_PORT + 63, wire_headers.constant("kMulticastPort"))
    others = (BASE_PORT + 64, 6000)
    # Each from a port of its own: no packet is recognised because another one of its conversation was.
    frames = {}
    for port in ours + others:
        for packet in (good, bad):
            other = packet.around(udp_destination=port, udp_source=40000 + len(frames))
            frames[port, packet is good] = other.frame()
    frames["elsewhere"] = encapsulate(JOB.box, JOB.addresses[0], 7000, pack_header({**good.header, "type": RESULT}))
    packets = Tshark(lab).named(frames)
    for port in ours:
        assert packets[port, True].protocols[-1] == packets[port, False].protocols[-1] == "tally", port
    for port in others:
        assert packets[port, True].protocols[-1] == "tally" and "tally" not in packets[port, False].protocols, port
    assert packets["elsewhere"].number("tally.type") == RESULT
