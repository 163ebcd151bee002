"""A machine: systemd as PID 1 in namespaces of its own, with what `make install` installs. Our units run there as they do
at their users' (boot_machine.py); it ends with the case, and what it wrote with it."""
import contextlib
import json
import os
import pathlib
import sys

from lab import Skipped
from namespace import Namespace, need
from programs import Program, Programs, wait_until
from workers import is_root

BOOT = pathlib.Path(__file__).with_name("boot_machine.py")
BOOT_SECONDS = 90
BOOTING = "systemd begins"
MACHINE = ("--mount", "--net", "--pid", "--ipc", "--uts", "--cgroup")


def cgroup_root():
    """Where this machine's control groups are, of the second version."""
    for line in pathlib.Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup2" and "rw" in options.split(","):
            return pathlib.Path(where)
    raise Skipped("needs control groups of version 2 that may be written, for systemd")


def remove_groups(path):
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


class Control:
    """A control group of a machine, gone when the machine is."""

    def __init__(self):
        root = cgroup_root()
        for path in root.glob("tally-machine.*"):
            if not pathlib.Path("/proc", path.suffix[1:]).exists():
                remove_groups(path)  # of a test that was killed
        self.path = root / f"tally-machine.{os.getpid()}"
        try:
            self.path.mkdir()
        except OSError as error:
            raise Skipped(f"needs control groups that may be made, for systemd: {error}") from error

    def remove(self):
        wait_until("the end of the machine", lambda: "populated 0" in (self.path / "cgroup.events").read_text(), 30)
        remove_groups(self.path)


class Init(Program):
    """PID 1 and all that it has started."""

    def __init__(self, lab, control, command):
        self.control = control
        super().__init__(lab, "machine", command, lab.variables)
        lab.programs.append(self)

    def close(self):
        super().close()
        self.control.remove()


class Machine(Namespace):
    """Its own processes, interfaces, users and files."""

    def __init__(self, lab):  # pylint: disable=super-init-not-called
        if not is_root():
            raise Skipped("needs root, for a machine with a systemd of its own")
        need("ip", "ethtool", "unshare", "nsenter", "systemctl")
        self.lab, self.name = lab, "machine"
        place = pathlib.Path(lab.directory, "machine")
        place.mkdir()
        control = Control()
        self.holder = Init(lab, control, [
            "sh", "-c", f'echo 0 >{control.path}/cgroup.procs && exec "$@"', "sh", "unshare", *MACHINE, "--fork", "--kill-child",
            "--propagation", "private", sys.executable, "-B", str(BOOT), str(place), Programs.build, Programs.worker])
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        wait_until("a machine", lambda: not self.holder.runs() or "systemd" in self.name_of(children), BOOT_SECONDS)
        if not self.holder.runs():
            raise self.not_made()
        self.init = int(children.read_text())
        self.root = pathlib.Path(f"/proc/{self.init}/root")
        self.prefix = ["nsenter", "--target", str(self.init), *MACHINE, "--"]
        wait_until("systemd to be up", lambda: not self.holder.runs() or
                   self.call("systemctl", "is-active", "machine.target", fails=True).strip() == "active", BOOT_SECONDS)
        if not self.holder.runs():
            raise self.not_made()
        self.journal = self.run("journal", ["journalctl", "--follow", "--lines=all", "--output=short-monotonic"])
        self.ip("link set lo up")

    def run(self, name, command, environment=None):
        """The worker is the machine's own: the build's folder is not there if it is below /tmp or on a disk of its own."""
        own = f"/usr/local/bin/{pathlib.Path(Programs.worker).name}"
        return super().run(name, [own if word == Programs.worker else word for word in command],
                           {"LD_LIBRARY_PATH": "/usr/lib", "TMPDIR": "/tmp", **(environment or {})})

    def ip_prefix(self):
        return [word for word in self.prefix if word != "--pid"]

    @staticmethod
    def name_of(children):
        try:
            return pathlib.Path(f"/proc/{int(children.read_text())}/comm").read_text()
        except (OSError, ValueError):
            return ""  # not yet, or no more

    def not_made(self):
        """Skipped where machines cannot be; a failure is the installation's."""
        said = self.holder.said() + self.holder.complained()
        if BOOTING in self.holder.said():
            return Skipped(f"needs a systemd that runs in namespaces; here it ended with: {said.split(BOOTING)[1].strip()}")
        if self.holder.process.returncode == 77:
            return Skipped(said.strip().splitlines()[-1])
        return AssertionError(f"the machine was not made: {said}")

    def write(self, path, text, mode=0o644):
        """A file of root in the machine."""
        inside = self.root / path.lstrip("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        inside.write_text(text)
        inside.chmod(mode)

    def install(self, file, path):
        self.write(path, pathlib.Path(file).read_text(), 0o755)

    def leave(self, name):
        self.call("rm", f"/etc/systemd/system/tallyd.service.d/{name}.conf")
        self.call("systemctl", "daemon-reload")

    def take(self, *names):
        """These drop-ins of tallyd.service, as its comment says."""
        for name in names:
            self.call("mkdir", "-p", "/etc/systemd/system/tallyd.service.d")
            self.call("ln", "-s", f"/usr/share/tally/tallyd.service.d/{name}.conf", "/etc/systemd/system/tallyd.service.d/")
        self.call("systemctl", "daemon-reload")

    def drop_in(self, unit, text, name="99-test"):
        self.write(f"/etc/systemd/system/{unit}.d/{name}.conf", text)
        self.call("systemctl", "daemon-reload")

    def property(self, unit, name):
        return self.call("systemctl", "show", "--value", "--property", name, unit).strip()

    def said_by(self, unit):
        self.call("journalctl", "--sync")
        return self.call("journalctl", "--unit", unit, "--output=cat", "--no-pager")

    def ask(self, *words):
        """tallyctl's answer, as JSON."""
        return json.loads(self.call("tallyctl", *words, "-o", "json"))
