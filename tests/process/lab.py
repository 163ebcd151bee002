"""The place of one case: a private directory, and the processes that must not outlive it."""
import fcntl
import os
import pathlib
import shutil
import tempfile

from programs import Program, Programs

NOBODY = 65534
PREFIX = "tally-lab."
CASES = {}


class Skipped(Exception):
    """The case cannot run here; the text says why."""


BUILDS = ("release", "address", "thread")


def case(*builds, waits=False):
    """Makes a function of a lab a case, named as the function. builds: the one of BUILDS that it runs in, release if none is
    named; several have a reason. waits: it mostly sleeps and bears a neighbour that does, too."""
    def register(function):
        assert function.__name__ not in CASES, f"two cases are named {function.__name__}"
        assert set(builds) <= set(BUILDS), builds
        function.builds, function.waits = builds or ("release",), waits
        CASES[function.__name__] = function
        return function
    return register


def sweep():
    """Removes the directories of labs that were killed before they could close."""
    for path in pathlib.Path(tempfile.gettempdir()).glob(PREFIX + "*"):
        try:
            if path.is_symlink() or path.stat().st_uid != os.geteuid():
                continue
            with open(path / "lock", "r+", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # its lab lives or is just being made, or it is no lab's


class Lab:
    """Hands out processes and names of files; everything is gone when it closes."""

    def __init__(self):
        sweep()
        # Short: the name of a Unix socket has at most 107 bytes.
        self.directory = tempfile.mkdtemp(prefix=PREFIX)
        # Gets its name when it is locked: another's sweep must not take it in between.
        self.lock = open(os.path.join(self.directory, "lock.new"), "x", encoding="ascii")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.rename(self.lock.name, os.path.join(self.directory, "lock"))
        self.logs = self.directory
        self.programs = []
        self.user = None
        self.variables = {"TMPDIR": self.directory}  # environment of every program

    def become_ordinary(self):
        """Programs run as 'nobody' from now on. They are copies: the build directory may be closed to others."""
        self.user = NOBODY
        for file in (Programs.tallyd, Programs.worker, *Programs.libraries):
            shutil.copy(file, self.directory)
        os.chown(self.directory, NOBODY, NOBODY)
        self.variables["LD_LIBRARY_PATH"] = self.directory

    def for_others(self, program):
        """A copy that any user may run, for the same reason; the lab is open to them from now on."""
        os.chmod(self.directory, 0o755)
        return shutil.copy(program, self.directory)

    def path_of(self, program):
        """Where to run it from."""
        return program if self.user is None else os.path.join(self.directory, os.path.basename(program))

    def run(self, name, command, environment=None):
        name += "'" * sum(program.name.rstrip("'") == name for program in self.programs)
        program = Program(self, name, command, {**self.variables, **(environment or {})})
        self.programs.append(program)
        return program

    def print_logs(self, most=12000):
        """What the programs said, for the report of a failure."""
        for program in self.programs:
            for path in (program.err, program.out):
                text = path.read_text(errors="replace")
                if text:
                    print(f"--- {path.name}\n{'...' if len(text) > most else ''}{text[-most:]}", flush=True)

    def close(self):
        for program in self.programs:
            program.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self.lock.close()
