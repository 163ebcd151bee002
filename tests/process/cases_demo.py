"""tools/demo and tools/demo-fleet as a person starts them, with small tensors (--quick): what it says, how it ends, what it leaves behind."""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import subprocess
import types

import counters
from lab import PREFIX, Skipped, case
from programs import Programs, wait_until
from workers import is_root

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEMO = ROOT / "tools/demo"
FLEET = ROOT / "tools/demo-fleet"
CONFIG = ROOT / "conf/demo.yaml"
BOX = "box: {ipv4: 10.1.0.10/24}\n"
PORT = '  - {name: p0, device: "net_memif0,role=server,id=0,socket=/tmp/s,socket-abstract=no"}\n'
JOB = "jobs: [{name: bert, workers: 1, token_file: none}]\n"
SMALL = BOX + "ports:\n" + PORT + JOB
JOB_OF_FLEET = "bert"
LONG = ("--quick", "--iterations", 10_000)
# What it sets itself once it has hugepages and hosts: other cases need the machine's hugepages.
WITHOUT_HUGEPAGES = {"TALLY_DEMO_INSIDE": "1"}


def start(lab, *arguments, build=None, environment=None, program=DEMO):
    if not Programs.build:
        raise Skipped("needs --build, as ctest gives it")
    variables = WITHOUT_HUGEPAGES if environment is None else environment
    return lab.run("demo", [str(program), str(build or Programs.build), *map(str, arguments)], variables)


def processes_of(lab, *words):
    """Those that a demo in this lab started, wherever they are; with these words in their environment."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            environment = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue  # it has just ended, or belongs to somebody else
        if any(f"={lab.directory}" in word for word in environment) and set(words) <= set(environment):
            found.append(int(path.parent.name))
    return found


def need_namespaces():
    probe = subprocess.run(["unshare", "--net" if is_root() else "-Urn", "true"], capture_output=True, check=False)
    if probe.returncode != 0:
        raise Skipped(f"needs network namespaces; the kernel said: {probe.stderr.decode().strip()}")


def directories_of(lab):
    return list(pathlib.Path(lab.directory).glob(PREFIX + "*"))


def check_nothing_is_left(lab):
    wait_until("the end of all that the demo started", lambda: not processes_of(lab))
    assert not directories_of(lab), directories_of(lab)


def check_ended(lab, demo, code, *words, seconds=90):
    ended = demo.wait(seconds)
    said = demo.said() + demo.complained()
    assert ended == code, f"{ended}: {said}"
    for word in words:
        assert word in said, f"no '{word}' in: {said}"
    check_nothing_is_left(lab)
    return demo.said()


def figures(lab):
    return pathlib.Path(lab.directory, "figures.json")


def check_story(lab, demo):
    """All was right, and it told what happened. The switch's counters."""
    said = check_ended(lab, demo, 0, "10 workers", "half way; of their contributions", "Now comes urgent.",
                       "urgent is done; it took", "All sums right: 15,024 results")
    rows = [line.split() for line in said.splitlines() if ", class " in line]
    assert [row[0] for row in rows] == ["resnet50", "bert", "urgent"], said
    assert [row[2:4] for row in rows] == [["class", "1"], ["class", "1"], ["class", "3"]], said
    assert all(row[-1] == "0" for row in rows), said
    assert re.search("^port +link +rx packets", said, re.M), said
    counted = counters.of_file(figures(lab))
    assert counted.jobs["urgent"]["results"] >= 48 * 16 and counted.slots["bert"]["claims"] > 0, said
    return counted


@case()
def demo_shows_that_all_sums_are_right(lab):
    """The whole way, with hugepages where root can have them, which are given back."""
    assert not check_story(lab, start(lab, "--quick", "--counters", figures(lab), environment={})).impaired


@case()
def demo_with_loss(lab):
    """Each port loses 1 % both ways, and nothing is wrong."""
    counted = check_story(lab, start(lab, "--quick", "--loss", "1%", "--counters", figures(lab)))
    assert len(counted.impaired) == 20 and all(row["lost"] > 0 for row in counted.impaired.values()), counted.text


@case()
def demo_on_veth_links(lab):
    """Kernel sockets in ten network namespaces; the namespaces end with it, also when it is interrupted."""
    need_namespaces()
    counted = check_story(lab, start(lab, "--quick", "--loss", "1%", "--counters", figures(lab), environment={"NET": "veth"}))
    assert all(row["lost"] > 0 for row in counted.impaired.values()), counted.text
    demo = start(lab, *LONG, environment={"NET": "veth"})
    wait_until("work", lambda: "Now comes" in demo.said() or processes_of(lab, "TALLY_JOB=bert", "TALLY_RANK=3"),
               seconds=60)
    demo.signal(signal.SIGTERM)
    check_ended(lab, demo, 128 + signal.SIGTERM, "interrupted; all its processes have ended")


@case()
def demo_of_a_fleet(lab):
    """A real etcd, four boxes: the home is killed and its job taken over, it comes back as a guest, etcd is killed; all
    sums are right. Workers join at any box."""
    need_namespaces()
    if not shutil.which("etcd"):
        raise Skipped("etcd is not installed (etcd-server)")
    demo = start(lab, "--verbose", program=FLEET, environment={})
    said = check_ended(lab, demo, 0, "Its home is box0.", "plans for all homes; box0 has its plan.",
                       "any box, effort full", "box0, is killed (kill -9).", "in the same generation", "box0 is back. ",
                       "it has its part again", "no home moves:", "All sums right: ", seconds=240)
    heir = re.search(r"(box[123]) has taken the job over", said).group(1)
    assert f"The home stays {heir}" in said, said
    homes = re.findall(rf"^ +{JOB_OF_FLEET} +(box\d)", said, re.M)
    assert homes == ["box0", heir, heir], said
    assert "ETCD IS GONE" in said, said


@case()
def demo_is_interrupted(lab):
    """At once, and at work: it ends all that it started and says so."""
    for words, number in (("One switch", signal.SIGTERM), ("They share", signal.SIGHUP)):
        demo = start(lab, *LONG)
        wait_until(words, lambda: words in demo.said())
        demo.signal(number)
        check_ended(lab, demo, 128 + number, "interrupted; all its processes have ended")
    demo = start(lab, *LONG)
    worker = wait_until("a worker", lambda: processes_of(lab, "TALLY_JOB=bert", "TALLY_RANK=3"))[0]
    wait_until("its work", lambda: cpu_ticks(worker) > 20)
    demo.signal(signal.SIGINT)
    check_ended(lab, demo, 128 + signal.SIGINT, "interrupted; all its processes have ended")


def cpu_ticks(pid):
    """Of a process; 100 are a second."""
    return sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))


@case()
def demo_is_killed(lab):
    """kill -9: its processes end by themselves, and the next one removes its directory."""
    demo = start(lab, *LONG)
    wait_until("ten workers", lambda: len(processes_of(lab, "TALLY_JOB=resnet50")) == 4)
    other = start(lab, "--config", "/no/such/file")
    check_words(other, 1, "/no/such/file")
    assert len(directories_of(lab)) == 1, "the other took the directory of one that runs"
    demo.kill()
    wait_until("the end of all that it started", lambda: not processes_of(lab))
    assert len(directories_of(lab)) == 1
    check_ended(lab, start(lab, "--config", "/no/such/file"), 1)


def check_words(demo, code, *words):
    ended = demo.wait()
    said = demo.said() + demo.complained()
    assert ended == code and all(word in said for word in words), f"{ended}, {words}: {said}"


@case()
def demo_tells_of_a_killed_worker(lab):
    demo = start(lab, *LONG)
    worker = wait_until("a worker", lambda: processes_of(lab, "TALLY_JOB=bert", "TALLY_RANK=1"))[0]
    wait_until("its work", lambda: cpu_ticks(worker) > 20)
    os.kill(worker, signal.SIGKILL)
    check_ended(lab, demo, 1, "demo: worker bert rank 1 was killed by signal 9 (Killed)", "bert: not finished",
                "The switch's own counters:", "FAILED; the reasons are above.")


@case()
def demo_tells_of_a_killed_switch(lab):
    demo = start(lab, *LONG)
    wait_until("a worker", lambda: processes_of(lab, "TALLY_JOB=bert", "TALLY_RANK=1"))
    for pid in processes_of(lab):
        if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "tallyd":
            os.kill(pid, signal.SIGKILL)
    check_ended(lab, demo, 1, "demo: the switch, tallyd, was killed by signal 9", "tallyd: ", "ready: ", "FAILED")


def build_with_worker(lab, *lines):
    """A build directory with the real tallyd and a worker that only says it has summed, two tensors; `lines` of shell are
    before its last word."""
    build = pathlib.Path(lab.directory, "build")
    worker = build / "bench/demo/tally-demo-worker"
    worker.parent.mkdir(parents=True, exist_ok=True)
    (build / "control").mkdir(exist_ok=True)
    if not (build / "control/tallyd").exists():
        (build / "control/tallyd").symlink_to(Programs.tallyd)
    worker.write_text("\n".join([
        "#!/bin/sh", '[ $# = 2 ] && { echo 4; echo 2; exit; }', "echo joined", "i=0", "while [ $i -lt $3 ]; do",
        '  echo "tensor $i 0 4 aa 0"; i=$((i+1))', "done", *lines,
        'i=0; while [ $i -lt $3 ]; do echo "tensor $i 1 2 ${crc:-cc} ${wrong:-0}"; i=$((i+1)); done',
        'echo "finished 5 0.5 1 2"']) + "\n")
    worker.chmod(0o755)
    return build


@case()
def demo_counts_wrong_sums(lab):
    """Its workers say what they like: sums outside the bound, other bits, too many, too few."""
    bert1 = "[ $TALLY_JOB.$TALLY_RANK = bert.1 ] && "
    config = pathlib.Path(lab.directory, "two.yaml")
    config.write_text(BOX + "ports:\n" + PORT + PORT.replace("0", "1") +
                      JOB.replace("workers: 1", "workers: 2"), encoding="utf-8")
    for line, words in (
            ("", ("All sums right: 16 results, the largest error 0.500 of its bound",)),
            (bert1 + "wrong=3", ("FAILED",)),
            (bert1 + "crc=dd", ("got other bits than a rank before it", "FAILED")),
            (bert1 + "echo tensor 0 0 4 aa 0", ("told of a sum that nobody asked for", "FAILED")),
            (bert1 + "echo tensor 9 0 4 aa 0", ("told of a sum that nobody asked for", "FAILED")),
            (bert1 + "echo tensor 0 2 4 aa 0", ("told of a sum that nobody asked for", "FAILED")),
            (bert1 + "exec echo finished 5 0.5 1 2", ("bert: not finished, 83.3 % done", "FAILED")),
            (bert1 + "exit 3", ("worker bert rank 1 ended with exit code 3", "FAILED"))):
        demo = start(lab, "--config", config, build=build_with_worker(lab, line))
        said = check_ended(lab, demo, 1 if "FAILED" in words else 0, *words)
        row = [text.split() for text in said.splitlines() if text.startswith("bert") and " pool " in text]
        wrong = {"wrong=3": "12", "crc=dd": "4"}.get(line.split(" ")[-1], "0" if not line else "1")
        assert not row or row[0][-1] == wrong, said


@case()
def demo_says_what_it_needs(lab):
    for arguments, words in ((("--loss", "1"), "such as 1%"), (("--loss", "100%"), "such as 1%"),
                             (("--loss", "01%"), "such as 1%"), (("--loss", ""), "such as 1%"),
                             (("--iterations", 0), "is not in 1..10000"), (("--colour",), "--colour")):
        check_words(start(lab, *arguments), 2, "usage: ", words)
    check_words(start(lab, build="/no/such/build"), 2, "are not built there", "make demo")
    check_words(start(lab, environment={"NET": "wifi"}), 2, "NET is 'wifi'")
    check_words(start(lab, "--help"), 0, "Exit codes: 0 all sums right", "--iterations")
    config = pathlib.Path(lab.directory, "unfit.yaml")
    for yaml, words in ((SMALL.replace("bert", "gpt"), "the demo has the jobs resnet50, bert, urgent"),
                        (SMALL.replace("workers: 1", "workers: 2"), "2 workers need as many memif ports"),
                        (SMALL.replace(BOX, "box: {ipv6: 'fd00::1/64'}\n"), "needs an IPv4 address"),
                        (SMALL.replace(BOX, "box: {ipv4: 10.0.0.1/30}\n"), "10.0.0.1/30 is too small"),
                        (BOX + "ports: [{name: p0, device: net_null0}]\n" + JOB, "net_null0 is no net_memif"),
                        ("box: 5\n", "its words are above")):
        config.write_text(yaml, encoding="utf-8")
        check_words(start(lab, "--config", config), 1, words)
    check_nothing_is_left(lab)


def module():
    """The script itself, for what it works out."""
    loader = importlib.machinery.SourceFileLoader("demo", str(DEMO))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("demo", loader))
    loader.exec_module(script)
    return script


def adapted(lab, config, loss=None, driver=""):
    """A Setup of a configuration, and what tallyd makes of it."""
    options = types.SimpleNamespace(tallyd=Programs.tallyd, config=str(config), loss=loss, driver=driver)
    setup = module().Setup(options, "/tmp/d/m.sock", "/tmp/d/c.sock")
    made = pathlib.Path(lab.directory, "made.yaml")
    made.write_text(setup.text, encoding="utf-8")
    return setup, dump(made)


def dump(config):
    return subprocess.check_output([Programs.tallyd, "--config", str(config), "--dump-config"], text=True)


@case()
def demo_adapts_its_configuration(lab):
    """It changes loss and sockets, or the ports' drivers, and nothing else; workers get what they must know."""
    shipped = dump(CONFIG)
    setup, made = adapted(lab, CONFIG, loss="1.5%")
    assert "\n  socket: auto\n" in shipped, shipped
    assert made == shipped.replace("loss: 0%", "loss: 1.5%").replace("  socket: auto", "  socket: /tmp/d/c.sock").replace(
        "socket=/tmp/tally-demo-memif.sock,socket-abstract=no", "socket-abstract=no,socket=/tmp/d/m.sock"), made
    assert [job["name"] for job in setup.jobs] == ["resnet50", "bert", "urgent"] and setup.slots == 256
    assert setup.transports[5] == "dpdk:net_memif5,role=client,id=5,socket-abstract=no,socket=/tmp/d/m.sock"
    assert setup.addresses[5] == "10.0.0.15/24" and setup.mtus == [1500] * 10 and str(setup.switch.ip) == "10.0.0.1"
    setup, made = adapted(lab, CONFIG, driver="af_xdp")
    assert made.count("net_af_xdp") == 10 and 'device: "net_af_xdp7,iface=port7"' in made, made
    assert setup.transports == ["udp"] * 10 and setup.addresses[7] == "10.0.0.17/24"
    own = pathlib.Path(lab.directory, "own.yaml")
    own.write_text(SMALL.replace("socket=/tmp/s,socket-abstract=no\"", "socket-abstract=yes\", impair: {loss: 3%}"),
                   encoding="utf-8")
    setup, made = adapted(lab, own)
    assert "loss: 3%" in made, made
    assert setup.transports == ["dpdk:net_memif0,role=client,id=0,socket-abstract=yes,socket=/tmp/d/m.sock"]
    assert setup.addresses == ["10.1.0.11/24"], "10.1.0.10 is the switch"
    assert setup.slots == 0, "dataplane.slots is another key"


@case()
def demo_draws_tables_and_progress(lab):
    del lab
    script = module()
    assert script.table([["a", "bb", "c"], ["xyz", "y", "12"]]) == "a    bb   c\nxyz  y   12\n"
    jobs = [types.SimpleNamespace(name=name, share=lambda part=part: part) for name, part in (("a", 0), ("b", .5), ("c", 1))]
    os.environ["NO_COLOR"] = "1"
    assert script.progress_text(jobs) == ("a [--------------------]   0 %   b [##########----------]  50 %   "
                                          "c [####################] 100 %   ")
    del os.environ["NO_COLOR"]
    assert "\x1b[32m##########\x1b[0m-" in script.progress_text(jobs)
