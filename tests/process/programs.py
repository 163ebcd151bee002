"""The programs under test, and how one of them is started, watched and ended.

Output goes to files in the lab, so nothing is lost when a process is killed and no pipe can fill up.
"""
import ctypes
import os
import pathlib
import select
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
# A finding of a sanitizer must not look like one of the programs' own exit codes.
SANITIZER_EXIT = 99
SANITIZER_VARIABLES = ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS")
POLL = 0.01


class Programs:
    """What the command line of run_case.py says; set once."""
    tallyd = worker = scarce_pool = server = ctl = plan = bench = clients = service = caller = original_box = ""
    cmake = build = ""  # the program, and the build directory
    libraries = ()  # of ours, that these two load
    sanitizer = ""

    @classmethod
    def patience(cls, seconds):
        """A deadline for something that normally takes far less; sanitizers are slow, machines may be busy."""
        return seconds * (3 if cls.sanitizer else 1)


class Stopwatch:
    """How long something takes, without the time in which these programs, or this test, could run and had no CPU: that a
    machine has too much to do is not what a case judges."""

    def __init__(self, *programs):
        self.pids = [os.getpid(), *(program.pid for program in programs)]
        self.begun = time.monotonic()
        self.before = self.delays()
        self.seen = dict(self.before)

    def delays(self):
        """Of each thread, in nanoseconds, as the kernel counts them; nothing where it does not."""
        found = {}
        for pid in self.pids:
            for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
                try:
                    found[thread] = int(thread.read_text(encoding="ascii").split()[1])
                except (OSError, IndexError):
                    pass  # it has just ended
        return found

    def starved(self):
        """Seconds; of threads that have ended since, what they had when they were last looked at."""
        self.seen.update(self.delays())
        return sum(delay - self.before.get(thread, 0) for thread, delay in self.seen.items()) * 1e-9

    def seconds(self, until=None):
        """until: as time.monotonic() says it; now without."""
        return (time.monotonic() if until is None else until) - self.begun - self.starved()


class TimedOut(AssertionError):
    """Something that a test waits for did not happen."""


def wait_until(what, condition, seconds=60):
    """The first true value of condition(); fails with `what` (a word or a function) after a while."""
    end = time.monotonic() + Programs.patience(seconds)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise TimedOut(f"waited {Programs.patience(seconds)} s for {what() if callable(what) else what}")
        time.sleep(POLL)


class Program:
    """One process of a test. Ends with the test whatever happens: by close(), or by the kernel if we are killed."""

    def __init__(self, lab, name, command, environment):
        self.name = name
        self.out, self.err = (pathlib.Path(lab.logs, f"{name}.{kind}") for kind in ("out", "err"))
        variables = dict(os.environ)
        for variable in list(variables):
            if variable.startswith("TALLY_"):
                del variables[variable]
        for variable in SANITIZER_VARIABLES:
            variables[variable] = ":".join(filter(None, [os.environ.get(variable), f"exitcode={SANITIZER_EXIT}"]))
        variables.update(environment)
        if lab.user is not None:
            command = ["setpriv", f"--reuid={lab.user}", f"--regid={lab.user}", "--clear-groups", "--pdeathsig=KILL",
                       *command]
        with open(self.out, "ab") as out, open(self.err, "ab") as err:
            # preexec_fn: this program has one thread. A process group of its own: Ctrl-C reaches only us, and we end it.
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=err, env=variables,
                                            cwd=lab.directory, process_group=0,
                                            preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self.pid = self.process.pid

    def said(self):
        """All of stdout."""
        return self.out.read_text(errors="replace")

    def complained(self):
        """All of stderr."""
        return self.err.read_text(errors="replace")

    def runs(self):
        return self.process.poll() is None

    def signal(self, number):
        assert self.runs(), f"{self.name} ended with {self.process.returncode} before its time"
        self.process.send_signal(number)

    def kill(self):
        """kill -9; returns the monotonic time of it."""
        self.signal(signal.SIGKILL)
        when = time.monotonic()
        self.process.wait()
        return when

    def write_line(self):
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def ends_within(self, seconds):
        """As Popen.wait() with a time, which looks every 50 ms only; there are several to a case."""
        if not self.runs():
            return True
        end = os.pidfd_open(self.pid)
        try:
            return bool(select.select([end], [], [], seconds)[0])
        finally:
            os.close(end)

    def wait(self, seconds=60):
        """The exit code."""
        if not self.ends_within(Programs.patience(seconds)):
            raise TimedOut(f"{self.name} did not end within {Programs.patience(seconds)} s")
        code = self.process.wait()
        assert code != SANITIZER_EXIT, f"a sanitizer ended {self.name}; see its stderr below"
        assert code >= 0 or code == -signal.SIGKILL, f"{self.name} died of signal {signal.Signals(-code).name}"
        return code

    def close(self):
        """Nothing of it is left afterwards."""
        if self.runs():
            self.process.kill()
            self.process.wait()
        self.process.stdin.close()
