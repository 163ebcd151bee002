"""What `cmake --install` puts where, and that Wireshark finds it as docs/wireshark.md says."""
import pathlib
import re
import subprocess

from capture import Tshark
from lab import Skipped, case
from programs import Programs
from samples import JOB, every_type
from cases_switchml import frame, payload

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "wireshark.md"


def install(lab):
    """Below DESTDIR with PREFIX=/usr; where tally.lua came to lie."""
    if not Programs.build:
        raise Skipped("needs --cmake and --build, as ctest gives them")
    root = pathlib.Path(lab.directory, "root")
    done = subprocess.run([Programs.cmake, "--install", Programs.build, "--prefix", "/usr", "--component", "wireshark"],
                          env={"DESTDIR": str(root)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root / "usr/share/tally/wireshark/tally.lua"


def check(tshark, *words):
    packets = tshark.packets([*every_type(JOB).values(), frame(payload())], *words)
    assert [packet.protocols[-1] for packet in packets] == ["tally"] * len(every_type(JOB)) + ["switchml"]
    assert not any(packet.has_error() for packet in packets)


@case()
def installed_and_loaded_from_the_plugins_of_a_user(lab):
    """The file with one line that the page has one write."""
    check(Tshark(lab, install(lab)))


@case()
def installed_and_loaded_by_option(lab):
    """-X lua_script:, for once."""
    script = install(lab)
    tshark = Tshark(lab, None)
    assert tshark.fields == {}, "another installation is found, too"
    check(tshark, "-X", f"lua_script:{script}")


@case()
def the_page_says_where_it_is_installed(lab):
    """The paths and the line in docs/wireshark.md are those of an installation with PREFIX=/usr."""
    script = install(lab)
    installed = "/" + str(script.relative_to(pathlib.Path(lab.directory, "root")))
    text = PAGE.read_text()
    assert f"-X lua_script:{installed}" in text and f'dofile("{installed}")' in text
    assert re.findall(r"/usr/share\S*tally\.lua", text).count(installed) >= 2
    assert sorted(path.name for path in script.parent.rglob("*")) == sorted(
        path.name for path in (PAGE.parents[1] / "tools/wireshark").rglob("*"))
