"""The units of systemd/: what systemd itself says of them. That they work under it: tests/smoke/cases_units.py."""
import pathlib
import re
import shutil
import subprocess

from lab import Skipped, case
from programs import Programs

UNITS = pathlib.Path(__file__).resolve().parents[2] / "systemd"
# The most that `systemd-analyze security` may find, of each service alone and with each of its drop-ins: 0 is a service that
# can do nothing, 10 one that can do everything. A file of systemd/ that is not here fails.
EXPOSURE = {
    "tallyd.service": 2.1,
    "tallyd.service + memif.conf": 1.5,
    "tallyd.service + af_xdp.conf": 2.5,
    "tallyd.service + nic.conf": 2.1,
    "tallyd.service + memif.conf + nic.conf": 1.5,
    "tally-ps@.service": 1.4,
    "tally-switchml.service": 1.4,
    "tally-hugepages@.service": 0.9,
}
PROGRAMS = {"tallyd": "control/tallyd", "tally-ps": "host/ps/tally-ps"}  # below the build


def need_systemd():
    if shutil.which("systemd-analyze") is None:
        raise Skipped("needs systemd-analyze: apt-get install systemd")


def services():
    """Every service, alone and with each of its drop-ins, in EXPOSURE's words."""
    for unit in sorted(UNITS.glob("*.service")):
        yield unit.name
        for drop_in in sorted((UNITS / f"{unit.name}.d").glob("*")):
            yield f"{unit.name} + {drop_in.name}"


def analyze(folder, *words):
    """What systemd-analyze says where only the units of this folder are beside systemd's."""
    done = subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, timeout=Programs.patience(60), check=False,
                          env={"PATH": "/usr/bin:/bin", "SYSTEMD_UNIT_PATH": f"{folder}:", "LC_ALL": "C.UTF-8"})
    return done.returncode, done.stdout + done.stderr


def levels_of_document():
    """What docs/ports.md tells, in EXPOSURE's words."""
    section = (UNITS.parent / "docs/ports.md").read_text(encoding="utf-8").split("## Rights, as a service")[1].split("\n## ")[0]
    levels = {}
    for links, level in re.findall(r"^\|[^|]*\|([^|]*)\|[^|]*\| ([0-9.]+) \|$", section, re.M):
        levels[" + ".join(["tallyd.service", *sorted(re.findall(r"`(\w+\.conf)`", links))])] = float(level)
    assert len(levels) == 5, levels
    return levels


@case()
def units_expose_little(lab):
    """Each unit in its table, and none above it; nothing in them that systemd does not understand."""
    need_systemd()
    unlisted = set(services()) - set(EXPOSURE)
    assert not unlisted, f"no threshold is written for {unlisted}: add them to EXPOSURE"
    found = {}
    for number, words in enumerate(EXPOSURE):
        unit, *drop_ins = words.split(" + ")
        folder = pathlib.Path(lab.directory, str(number))
        (folder / f"{unit}.d").mkdir(parents=True)
        shutil.copy(UNITS / unit, folder)
        for drop_in in drop_ins:
            shutil.copy(UNITS / f"{unit}.d" / drop_in, folder / f"{unit}.d")
        _, said = analyze(folder, "security", "--offline=true", "--no-pager", str(folder / unit))
        level = re.search(r"Overall exposure level for .*: ([0-9.]+) ", said)
        assert level, said
        assert f"{folder}/" not in said, f"systemd ignores a line of {words}: {said[:said.index('  NAME')]}"
        found[words] = float(level.group(1))
    assert levels_of_document() == {words: found[words] for words in levels_of_document()}, f"docs/ports.md says otherwise: {found}"
    print("\n".join(f"{level} {words}" for words, level in found.items()))
    above = {words: level for words, level in found.items() if level > EXPOSURE[words]}
    assert not above, f"exposed more than EXPOSURE allows: {above}"


@case()
def units_are_verified_by_systemd(lab):
    """`systemd-analyze verify` has nothing to say. Of the programs it looks whether they can be run, so they are the built ones."""
    need_systemd()
    folder = pathlib.Path(lab.directory, "units")
    shutil.copytree(UNITS, folder)
    files = sorted([*folder.glob("*.service"), *folder.glob("*.mount")])
    for file in files:
        text = file.read_text()
        for name, path in PROGRAMS.items():
            text = re.sub(rf"^(Exec\w+=){name} ", rf"\g<1>{pathlib.Path(Programs.build, path)} ", text, flags=re.M)
        file.write_text(text.replace("=tally-switchml ", "=/bin/true "))  # not in every build
    for file in files:
        code, said = analyze(folder, "verify", "--man=no", str(file))
        assert code == 0 and not said.strip(), f"{file.name}: {said}"


@case()
def units_are_installed(lab):
    """All that systemd/ has, where systemd and the comment in tallyd.service look for it; the session service's only with it."""
    place = pathlib.Path(lab.directory, "root")
    subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={place}", "-P", f"{Programs.build}/systemd/cmake_install.cmake"],
                   stdout=subprocess.DEVNULL, timeout=60, check=True)
    with_sessions = any(pathlib.Path(Programs.build).glob("control/**/tally-switchml"))
    wanted = {"lib/sysusers.d/tally.conf"}
    wanted |= {f"lib/systemd/system/{file.name}" for kind in ("service", "mount") for file in UNITS.glob(f"*.{kind}")
               if with_sessions or file.name != "tally-switchml.service"}
    wanted |= {f"share/tally/{file.relative_to(UNITS)}" for file in UNITS.glob("*.d/*")}
    found = {str(file.relative_to(place)) for file in place.rglob("*") if file.is_file()}
    assert found == wanted, found ^ wanted
