"""Captures of our own making, and what tshark says of them."""
import functools
import os
import pathlib
import re
import shutil
import struct
import subprocess

from lab import Skipped
from packet import Packet

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "wireshark" / "tally.lua"
SNAPLEN = 65535
# Most of what is printed of a packet is Ethernet's, IP's and UDP's. Cases with thousands of packets leave those fields
# and expert infos out; the protocols' names stay. text: lines of no field, such as an error in Lua.
OURS = ("-J", "tally switchml text _ws.malformed")

# Filters that name our fields can be compiled when those are registered: not yet when scripts are loaded.
LISTENERS = """
local proto, listeners = Proto("listeners", "Of display filters"), nil
function proto.init()
  if listeners then return end
  listeners = {}
  for place, filter in ipairs({ FILTERS }) do
    listeners[place] = Listener.new("frame", filter)
    listeners[place].packet = function(pinfo) print(place, pinfo.number) end
  end
end
"""


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


class Tshark:
    """tshark with a home of its own, in which the dissector is installed as docs/wireshark.md says: no plugin and no
    setting of whoever runs this. script: where it lies; None: not installed. A start takes longer than a thousand
    packets: cases put all their frames into one capture, each with a chunk, job or port of its own where one frame
    could tell of another."""

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

    def output(self, *words):
        """What it printed. A word on stderr fails the test, but that it is root's."""
        done = subprocess.run([self.program, *words], env=self.environment, capture_output=True, timeout=120,
                              check=False)
        said = [line for line in done.stderr.decode(errors="replace").splitlines()
                if line and "This could be dangerous" not in line]
        assert done.returncode == 0 and not said, f"tshark {words} ended with {done.returncode}: {said}"
        return done.stdout

    def run(self, *words):
        return self.output(*words).decode(errors="replace")

    def glossary(self, report, line):
        """What a `-G` report says of our fields, as words from the field's name on. line: the bytes before the name.
        It tells of all that Wireshark knows, up to 1.4 million lines: those of others are not even decoded."""
        found = re.findall(line + rb"((?:tally|switchml)\..*)", self.output("-G", report))
        return [text.decode().split("\t") for text in found]

    @functools.cached_property
    def fields(self):
        """{name: name, type, protocol, base, mask, what it is about}"""
        return {words[0]: words for words in self.glossary("fields", rb"\nF\t[^\t\n]*\t")}

    def capture(self, frames, **options):
        """The name of a capture with these frames; a name is left as it is."""
        return frames if isinstance(frames, str) else write_pcap(self.directory / "test.pcap", frames, **options)

    def packets(self, frames, *words, **options):
        text = self.run("-r", self.capture(frames, **options), "-2", "-n", "-T", "pdml", *words)
        found = list(map(Packet, re.findall("<packet>.*?</packet>", text, re.S)))
        assert isinstance(frames, str) or len(found) == len(frames), (len(found), len(frames))
        return found

    def named(self, frames, *words):
        """{name: packet} of {name: frame}."""
        return dict(zip(frames, self.packets(list(frames.values()), *words)))

    def column(self, frames, field, *words, **options):
        """One field of each packet, as -T fields prints it."""
        text = self.run("-r", self.capture(frames, **options), "-2", "-n", "-T", "fields", "-e", field, *words)
        return text.split("\n")[:-1]

    def info(self, frames, *words):
        return self.column(frames, "_ws.col.Info", *words)

    def selected(self, frames, filters, *words, **options):
        """Numbers of the frames that each display filter selects, all in one run: each filter is a listener's."""
        script = self.directory / "listeners.lua"
        script.write_text(LISTENERS.replace("FILTERS", ", ".join(f"[==[{text}]==]" for text in filters)))
        said = self.run("-r", self.capture(frames, **options), "-2", "-n", "-q", "-X", f"lua_script:{script}", *words)
        found = [[] for _ in filters]
        for line in said.splitlines():
            place, frame = map(int, line.split())
            found[place - 1].append(frame)
        return dict(zip(filters, found))
