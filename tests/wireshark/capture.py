"""Captures of our own making, and what tshark says of them."""
import os
import pathlib
import shutil
import struct
import subprocess
import xml.etree.ElementTree

from lab import Skipped

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "wireshark" / "tally.lua"
SNAPLEN = 65535
ERROR = 0x00800000  # severity of an expert info
TREES = ("tally.join.last", "tally.joined.record")  # fields without a value, as expert infos are


def write_pcap(path, frames, times=None, kept=None):
    """frames: bytes each; times: microseconds of each, else one behind the other; kept: how many bytes of each were
    captured, else all."""
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAPLEN, 1))
        for number, frame in enumerate(frames):
            at = times[number] if times else number
            data = frame[:kept[number]] if kept else frame
            file.write(struct.pack("<IIII", 1_700_000_000 + at // 10**6, at % 10**6, len(data), len(frame)) + data)
    return str(path)


class Packet:
    """One packet as tshark showed it: values by name of the field, as often as it occurs."""

    def __init__(self, element, experts):
        self.experts = experts
        self.fields = [(field.get("name"), field.get("show"), int(field.get("pos") or 0), int(field.get("size") or 0))
                       for field in element.iter("field")]
        self.protocols = [proto.get("name") for proto in element.iter("proto")]

    def names(self):
        return {field[0] for field in self.fields}

    def all(self, name):
        return [show for field, show, _, _ in self.fields if field == name]

    def one(self, name):
        shown = self.all(name)
        assert len(shown) == 1, f"{name} occurs {len(shown)} times: {shown}"
        return shown[0]

    def number(self, name):
        return int(self.one(name), 0)

    def place(self, name):
        """(offset in the frame, bytes)"""
        places = {(pos, size) for field, _, pos, size in self.fields if field == name}
        assert len(places) == 1, f"{name} lies in {places}"
        return places.pop()

    def remarks(self):
        """Names of our expert infos."""
        return self.names() & self.experts

    def has_error(self):
        return str(ERROR) in self.all("_ws.expert.severity")

    def failed(self):
        """The dissector itself did: an error in Lua, or a read behind the end of the packet."""
        return bool({"_ws.lua.error", "_ws.malformed"} & self.names())


class Tshark:
    """tshark with a home of its own, in which the dissector is installed as docs/wireshark.md says: no plugin and no
    setting of whoever runs this. script: where it lies; None: not installed."""

    def __init__(self, lab, script=SCRIPT):
        self.script = script
        self.program = shutil.which("tshark")
        if not self.program:
            raise Skipped("needs tshark: apt-get install tshark")
        self.directory = pathlib.Path(lab.directory)
        self.environment = {"PATH": os.environ["PATH"], "HOME": lab.directory, "LC_ALL": "C.UTF-8",
                            "WIRESHARK_PLUGIN_DIR": str(self.directory / "none")}
        if script:
            plugins = self.directory / ".local/lib/wireshark/plugins"
            plugins.mkdir(parents=True, exist_ok=True)
            (plugins / "tally.lua").write_text(f'dofile("{script}")\n')
        fields = [line.split("\t") for line in self.run("-G", "fields").splitlines()]
        self.fields = {words[2]: words for words in fields
                       if words[0] == "F" and words[2].startswith(("tally.", "switchml."))}
        self.experts = {name for name, words in self.fields.items() if words[3] == "FT_NONE" and name not in TREES}

    def run(self, *words):
        """What it printed. A word on stderr fails the test, but that it is root's."""
        done = subprocess.run([self.program, *words], env=self.environment, capture_output=True, text=True,
                              errors="replace", timeout=120, check=False)
        said = [line for line in done.stderr.splitlines() if line and "This could be dangerous" not in line]
        assert done.returncode == 0 and not said, f"tshark {words} ended with {done.returncode}: {said}"
        return done.stdout

    def capture(self, frames, **options):
        """The name of a capture with these frames; a name is left as it is."""
        return frames if isinstance(frames, str) else write_pcap(self.directory / "test.pcap", frames, **options)

    def packets(self, frames, *words, **options):
        text = self.run("-r", self.capture(frames, **options), "-2", "-n", "-T", "pdml", *words)
        return [Packet(element, self.experts) for element in xml.etree.ElementTree.fromstring(text).iter("packet")]

    def column(self, frames, field, *words, **options):
        """One field of each packet, as -T fields prints it."""
        text = self.run("-r", self.capture(frames, **options), "-2", "-n", "-T", "fields", "-e", field, *words)
        return text.split("\n")[:-1]

    def info(self, frames, *words):
        return self.column(frames, "_ws.col.Info", *words)

    def selected(self, frames, display_filter):
        """Numbers of the frames that a display filter selects."""
        return [int(number) for number in self.column(frames, "frame.number", "-Y", display_filter)]
