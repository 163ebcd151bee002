"""tools/hugepages, against files that stand for the kernel's, and tools/veth-rack: both give back what they took."""
import pathlib
import shlex
import signal
import subprocess

from lab import Skipped, case
from programs import wait_until
from workers import is_root

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


class Pool:
    """100 hugepages, of which 30 are free."""

    def __init__(self, lab):
        self.lab, self.directory = lab, pathlib.Path(lab.directory)
        for name, text in (("nr_hugepages", "100\n"), ("free_hugepages", "30\n"),
                           ("mounts", "nodev /dev/hugepages hugetlbfs rw 0 0\n")):
            (self.directory / name).write_text(text)

    def total(self):
        return int((self.directory / "nr_hugepages").read_text())

    def start(self, pages, script):
        """A shell under `hugepages run`; it has $POOL."""
        return self.lab.run("hugepages", [str(TOOLS / "hugepages"), "run", str(pages), "--", "sh", "-c", script], {
            "TALLY_HUGEPAGES_POOL": str(self.directory), "TALLY_MOUNTS": str(self.directory / "mounts"),
            "POOL": str(self.directory / "nr_hugepages")})


@case()
def hugepages_are_borrowed(lab):
    """What is missing, no more; the old value is said and is there again at the end."""
    pool = Pool(lab)
    program = pool.start(50, "cat $POOL; exit 4")
    assert program.wait() == 4 and program.said() == "120", "30 of 50 were free"
    assert "there were 100" in program.complained() and pool.total() == 100
    program = pool.start(30, "cat $POOL")
    assert program.wait() == 0 and program.said().strip() == "100" and pool.total() == 100


@case()
def hugepages_of_others_stay(lab):
    """Somebody else set another number meanwhile: it takes back only its own."""
    pool = Pool(lab)
    assert pool.start(50, "echo 500 >$POOL").wait() == 0
    assert pool.total() == 480


@case()
def hugepages_come_back_after_a_signal(lab):
    pool = Pool(lab)
    program = pool.start(50, "echo started; exec sleep 1000")
    wait_until("the command", program.said)
    assert pool.total() == 120
    program.signal(signal.SIGTERM)
    assert program.wait() == 128 + signal.SIGTERM and pool.total() == 100


@case()
def hugepages_without_a_pool(lab):
    pool = Pool(lab)
    (pool.directory / "nr_hugepages").unlink()
    program = pool.start(50, "exit 6")
    assert program.wait() == 6 and "none are reserved" in program.complained()


def start_rack(lab, *words):
    return lab.run("rack", [str(TOOLS / "veth-rack"), *words])


def run_rack(lab, *words):
    """Its exit code, and what was said."""
    program = start_rack(lab, *words)
    code = program.process.wait(60)
    return 128 - code if code < 0 else code, program.said() + program.complained()


def need_namespaces():
    probe = subprocess.run(["unshare", "--net" if is_root() else "-Urn", "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        raise Skipped(f"needs network namespaces; the kernel said: {probe.stderr.strip()}")


def wait_for_no(path):
    wait_until(f"the end of {path}", lambda: not pathlib.Path(path).exists())


@case()
def rack_has_hosts_behind_its_ports(lab):
    need_namespaces()
    code, said = run_rack(lab, "2", "10.9.0.0/24", "--", "sh", "-c", "ip -br link; for host in $(echo {hosts} | tr , ' '); "
                          "do nsenter --net=$host ip -br addr; done")
    assert code == 0 and "port0@" in said and "port1@" in said and "10.9.0.10/24" in said and "10.9.0.11/24" in said, said


@case()
def rack_leaves_nothing(lab):
    """It ends as its command ends; its hosts end with it, also when it is killed, and so does its command."""
    need_namespaces()
    code, said = run_rack(lab, "1", "10.9.0.0/24", "--", "sh", "-c", "echo {hosts}; exit 7")
    assert code == 7 and said.startswith("/proc/") and not pathlib.Path(said.strip()).exists(), said
    links = subprocess.check_output(["ip", "-br", "link"], text=True)
    assert "port0" not in links, links
    code, said = run_rack(lab, "1", "10.9.0.0/24", "--", "sh", "-c", "echo {hosts}; kill -9 $PPID")
    assert code == 128 + signal.SIGKILL, said
    wait_for_no(said.strip())
    for number in (signal.SIGTERM, signal.SIGKILL):
        _, said = run_rack(lab, "0", "10.9.0.0/24", "--", "sh", "-c", f"echo $$; kill -{int(number)} $PPID; exec sleep 1000")
        wait_for_no(f"/proc/{said.strip()}/ns/net")


@case()
def rack_tells_how_it_is_used(lab):
    for words, said in (("1 -- true", "usage"), ("1 10.0.0.300/24 -- true", "10.0.0.300/24"), ("1 10.0.0.0/24 --", "no command"),
                        ("1 10.0.0.0/29 -- true", "10.0.0.0/29 is too small for 1 hosts")):
        code, complaint = run_rack(lab, *shlex.split(words))
        assert code == 2 and said in complaint, complaint
