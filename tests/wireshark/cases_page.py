"""The display filters of docs/wireshark.md do what it says."""
import pathlib
import re

from capture import Tshark
from cases_switchml import frame, payload
from lab import case
from samples import story

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "wireshark.md"
# Frames of samples.story() that each filter of the page selects; frame 28 is SwitchML's.
SELECTED = {
    'tally.type == "CONTRIBUTE" && tally.chunk.arrival && tally.chunk.time > 0.01': [4, 9],
    'tally.chunk.arrival == 2': [4, 9, 19],
    'tally.type == "CONTRIBUTE" && !tally.response_in': [21, 27],
    'tally.type == "CONTRIBUTE" && tally.response_time > 0.01': [3, 7],
    'tally.repeat_of': [8, 12],
    'tally.type == "RESULT" && tally.flags.retransmit == 1': [13, 17],
    'tally.type == "REJECT"': [22, 24],
    'tally.reason == "WAITING"': [22],
    'tally.type in {"QUERY", "ANSWER"}': [14, 15, 16],
    'tally.job == 7 && tally.chunk == 6 && tally.type <= 8': [7, 8, 9, 10, 11, 12, 13],
    'tally.contributors & 2 && tally.type == "CONTRIBUTE"': [4, 9, 19],
    'tally.type in {"JOIN", "JOINED", "LEAVE", "ABORT"}': [1, 2, 25, 26],
    'tally.joined.status == "REFUSED" || tally.type == "ABORT"': [25, 26],
    'tally.flags.overflow == 1 || tally.flags.incomplete == 1': [21, 23],
    'tally.check.status == "Bad" || tally.payload.status == "Bad" || tally.sum.status == "Bad"': [27],
    '(tally || switchml) && _ws.expert.severity == "Error"': [27],
    'switchml.slot == 5 && switchml.set == 1': [28],
}


@case()
def the_filters_of_the_page(lab):
    """Each selects what the page says of it, in a capture that has all of it."""
    text = PAGE.read_text()
    written = [found.replace("\\|", "|") for found in re.findall(r"^\|.*\| `([^`]+)` \|$", text, re.M)]
    assert written == list(SELECTED), "docs/wireshark.md and this test name other filters"
    times, frames = zip(*story())
    selected = Tshark(lab).selected([*frames, frame(payload())], written, "-o", "tally.sums:TRUE",
                                    times=[*times, 95_000])
    for display_filter, numbers in SELECTED.items():
        assert selected[display_filter] == numbers, (display_filter, selected[display_filter])


@case()
def the_fields_of_the_page_exist(lab):
    """Each field and each preference that it names; and it names each preference."""
    tshark = Tshark(lab)
    text = PAGE.read_text()
    named = set(re.findall(r"\b((?:tally|switchml)\.[a-z_0-9]+(?:\.[a-z_0-9]+)*)\b(?!\.\*)", text))
    preferences = set(re.findall(r"^#?((?:tally|switchml)\.\w+):", tshark.run("-G", "currentprefs"), re.M))
    files = {"tally.lua", "tally.wireshark"}
    unknown = named - set(tshark.fields) - preferences - files
    assert not unknown, unknown
    assert preferences - named == set(), preferences - named
