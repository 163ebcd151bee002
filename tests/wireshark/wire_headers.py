"""What the C++ headers of the wire say: structs with offsets, enumerators, constants."""
import pathlib
import re

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include" / "tally"
FILES = ("ids.h", "wire.h", "wire.h", "discipline.h")
SIZES = {"std::uint8_t": 1, "std::int8_t": 1, "Be<std::uint16_t>": 2, "Be<std::uint32_t>": 4, "Be<std::uint64_t>": 8,
         "PacketType": 1, "JoinStatus": 1, "Discipline": 1, "ResultsMode": 1, "GenerationRecord": 22, "Tag": 16, "PlanId": 16, "BoxIndex": 1,
         "std::array<std::uint8_t, 3>": 3,
         "std::array<std::uint8_t, 16>": 16, "std::array<std::uint8_t, 6>": 6}
TEXT = "\n".join(re.sub(r"//[^\n]*", "", (INCLUDE / name).read_text()) for name in FILES)
MEMBER = re.compile(r"^\s*((?:std::|Be<)?[A-Za-z][\w:<>, ]*?)\s+(\w+)(?:\s*(?:= [^;]*|\{[^;]*\}))?;", re.M)


def members(struct):
    """[(name, offset, bytes)] in the order of the wire."""
    body = re.search(rf"^struct {struct} \{{\n(.*?)^\}};", TEXT, re.M | re.S).group(1)
    found, offset = [], 0
    for kind, name in MEMBER.findall(re.sub(r"^\s*static constexpr .*$", "", body, flags=re.M)):
        size = SIZES[" ".join(kind.split())]
        found.append((name, offset, size))
        offset += size
    assert found, struct
    return found


def enumerators(name):
    """{number: NAME}, as docs/protocol.md writes names."""
    body = re.search(rf"^enum (?:class )?{name} : [\w:]+ \{{(.*?)\}};", TEXT, re.M | re.S).group(1)
    prefix = "kFlag" if name == "Flag" else "k"
    found = {int(number): word.upper() for word, number in re.findall(rf"{prefix}(\w+) = (\d+)", body)}
    assert found, name
    return found


def constant(name):
    value = re.search(rf"\b{name} = ([^;]+);", TEXT).group(1)
    return int(value, 0)
