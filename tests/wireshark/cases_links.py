"""What packets have to do with one another."""
from capture import Tshark
from fixture_jobs import address4, values
from lab import case
from samples import JOB, SIX, challenge, join, joined, result, story, to_group
from tally_wire import BASE_PORT, encapsulate


def read(lab, job=JOB):
    """Packets of the story by number, from 1 on."""
    times, frames = zip(*story(job))
    return dict(enumerate(Tshark(lab).packets(list(frames), times=times), 1))


def shown(packets, field):
    """{frame: what it says}, of those frames that say it once."""
    return {number: packet.one(field) for number, packet in packets.items() if packet.all(field)}


@case()
def requests_and_answers(lab):
    """Contribution and RESULT, QUERY and RESULT, JOIN and JOINED point at each other, with the time between."""
    packets = read(lab)
    # 7 and 8 wait for one RESULT; 12 asks again; 20 goes to a group; 21 is never answered; 27 neither.
    assert shown(packets, "tally.response_in") == {
        1: "2", 3: "5", 4: "6", 7: "11", 8: "11", 9: "10", 12: "13", 14: "17", 18: "20", 19: "20"}
    assert shown(packets, "tally.response_to") == {
        2: "1", 5: "3", 6: "4", 10: "9", 11: "7", 13: "12", 17: "14", 20: "18", 26: "1"}
    times = {number: float(text) for number, text in shown(packets, "tally.response_time").items()}
    expected = {1: 100, 2: 100, 3: 20_100, 4: 150, 5: 20_100, 6: 150, 7: 10_610, 8: 610, 9: 100, 10: 100, 11: 10_610,
                12: 100, 13: 100, 14: 300, 17: 300, 18: 200, 19: 100, 20: 200, 26: 90_000}
    assert {number: round(time * 1e6) for number, time in times.items()} == expected


@case()
def a_challenge_answers_a_join(lab):
    """By its nonce, as JOINED does."""
    packets = dict(enumerate(Tshark(lab).packets([join(JOB), challenge(JOB), joined(JOB)]), 1))
    assert shown(packets, "tally.response_in") == {1: "2"} and shown(packets, "tally.response_to") == {2: "1", 3: "1"}


@case()
def repetitions(lab):
    """A contribution that the rank sent before names the first one; a relayed QUERY is none."""
    packets = read(lab)
    assert shown(packets, "tally.repeat_of") == {8: "7", 12: "7"}
    assert [number for number, packet in packets.items() if "tally.repeated" in packet.remarks()] == [8, 12]


@case()
def the_life_of_a_chunk(lab):
    """Who came first, who n-th, and how long after the first one; over IPv6 too."""
    for job in (JOB, SIX):
        packets = read(lab, job)
        assert shown(packets, "tally.chunk.arrival") == {3: "1", 4: "2", 7: "1", 9: "2", 18: "1", 19: "2", 21: "1",
                                                         27: "1"}
        since = {number: round(float(text) * 1e6) for number, text in shown(packets, "tally.chunk.time").items()}
        assert since == {3: 0, 4: 20_000, 5: 20_100, 6: 20_150, 7: 0, 8: 10_000, 9: 10_500, 10: 10_600, 11: 10_610,
                         12: 18_000, 13: 18_100, 18: 0, 19: 100, 20: 200, 21: 0, 27: 0}
        assert {number: text for number, text in shown(packets, "tally.chunk.first_in").items() if number < 14} == {
            **dict.fromkeys((3, 4, 5, 6), "3"), **dict.fromkeys(range(7, 14), "7")}


@case()
def a_packet_with_a_wrong_check_is_no_history(lab):
    """Its chunk, rank and job may be anybody's."""
    first = JOB.contribute(0, 5, [1] * 16)
    packets = Tshark(lab).packets([first.but(check=1).frame(), first.frame()])
    assert packets[0].all("tally.chunk.arrival") == [] and packets[1].all("tally.repeat_of") == []
    assert packets[1].one("tally.chunk.arrival") == "1"


@case()
def repetitions_behind_a_groups_result_and_to_a_server(lab):
    """Whoever repeats, first or not; what a group's RESULT answered waits no more; what the box hands to a server is
    nobody's contribution."""
    def contribution(rank):
        return JOB.contribute(rank, 8, values(rank))

    to_server = encapsulate(JOB.box, address4(9), BASE_PORT, contribution(0).datagram())
    frames = [contribution(0).frame(), to_server, contribution(1).frame(), to_group(JOB, 8), contribution(1).frame(),
              result(JOB, 1, 8)]
    packets = dict(enumerate(Tshark(lab).packets(frames), 1))
    assert shown(packets, "tally.chunk.arrival") == {1: "1", 3: "2"}
    assert shown(packets, "tally.repeat_of") == {5: "3"}
    assert shown(packets, "tally.response_to") == {4: "1", 6: "5"}
    assert shown(packets, "tally.response_in") == {1: "4", 3: "4", 5: "6"}
