"""tallyctl and the socket behind it, against a running box: every verb, every exit code, and clients of every kind."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import time

from box import Box, Job, Options, run_box
from lab import NOBODY, Skipped, case
from programs import Programs, wait_until
from workers import UNTIL_TOLD, finish, go_on, is_root, start_job

OK, FAILED, USAGE, NOT_MET, UNREACHABLE, NOT_PERMITTED = range(6)
COMPLETION = pathlib.Path(__file__).resolve().parents[2] / "control/ctl/tallyctl.bash"


class Ctl:
    """tallyctl for one box."""

    def __init__(self, box):
        self.box = box

    def run(self, *words, user=None):
        """(exit code, stdout, stderr)"""
        socket_words = [] if "--socket" in words else ["--socket", self.box.control]
        program = Programs.ctl if user is None else self.box.lab.for_others(Programs.ctl)
        done = subprocess.run([program, *socket_words, *words], capture_output=True, text=True,
                              timeout=Programs.patience(30), check=False, user=user, group=user,
                              extra_groups=None if user is None else [])
        return done.returncode, done.stdout, done.stderr

    def table(self, *words):
        code, out, complaints = self.run(*words)
        assert code == OK and out and not complaints, (words, code, out, complaints)
        return out

    def json(self, *words):
        return json.loads(self.table(*words, "-o", "json"))

    def fails(self, expected, *words, user=None):
        """What it says."""
        code, _, complaints = self.run(*words, user=user)
        assert code == expected and complaints, (words, code, complaints)
        return complaints


def at_work(box, job, script="--sizes 20000 --gap 5"):
    """Its workers, which have done something."""
    workers = start_job(box, job, f"{script} {UNTIL_TOLD}")
    for worker in workers:
        worker.wait_for("iteration", 3)
    return workers


@case("address")
def every_verb_of_tallyctl(lab):
    """Each one, as a table and as JSON, while a job runs; what it changes changes, and no sum is wrong."""
    job = Job("resnet", window=64)
    box = run_box(lab, [job, Job("bert", workers=1)], control="access: owner")
    ctl = Ctl(box)
    job.window = 256
    box.reload()
    box.wait_for_log("gets a window of 256")
    workers = at_work(box, job)
    for words, part in ((("job", "list"), "resnet"), (("job", "show", "resnet"), "late: nobody"),
                        (("port", "list"), "p2"), (("core", "list"), "busy"), (("slot", "show"), "resnet"),
                        (("drop", "list"), "\n"), (("stats",), "packet buffers in use"),
                        (("plan",), "no planner: "), (("plan", "bert", "--all"), "no plan: this box alone sums it"), (("version",), "api 1"),
                        (("config", "show"), "window: 256"), (("config", "check", str(box.config)), "good"),
                        (("top", "--once", "--interval", "0.2"), "RES/S")):
        assert part in ctl.table(*words), words
        assert isinstance(ctl.json(*words), dict) if words[0] != "top" else True
    shown = ctl.json("job", "show", "resnet")
    assert shown["phase"] == "running" and [rank["rank"] for rank in shown["ranks"]] == [0, 1], shown
    assert shown["ranks"][1]["address"] == "10.0.0.2" and shown["ranks"][1]["port"] == "p1", shown
    code, out, _ = ctl.run("health")
    assert code == (OK if out == "good\n" else NOT_MET), out  # a starved machine has late ranks
    assert ctl.json("job", "set", "resnet", "window=64")["wanted_window"] == 64
    box.wait_for_log("running: generation")
    wait_until("window 64", lambda: ctl.json("job", "show", "resnet")["window"] == 64)
    assert "gets a window of 256 instead of 64" in ctl.table("config", "reload"), "the file has the last word"
    wait_until("window 256", lambda: ctl.json("job", "show", "resnet")["window"] == 256)
    assert "debug" in ctl.table("log", "set", "debug")
    assert "log.level is info" in ctl.table("config", "reload")
    go_on(workers)
    finish(workers)
    numbers = ctl.json("stats")
    counted = box.stop()
    assert not os.path.exists(box.control)
    # The table and the interface tell the same story.
    assert counted.jobs["resnet"]["results"] == numbers["jobs"][0]["results"], counted.text
    assert counted.jobs["resnet"]["contributions"] == numbers["jobs"][0]["contributions"], counted.text


@case("address")
def exit_codes_of_tallyctl(lab):
    """Each of them, and what was meant."""
    box = Box(lab, [Job("resnet")], Options(control="access: owner"))
    ctl = Ctl(box)
    assert "no such socket" in ctl.fails(UNREACHABLE, "job", "list")
    box.start()
    assert "did you mean resnet?" in ctl.fails(FAILED, "job", "show", "resnt")
    assert "did you mean resnet?" in ctl.fails(FAILED, "plan", "resnt")
    assert "planner.cluster" in ctl.fails(FAILED, "plan", "set-rate", "box rack1", "25G")
    assert "it has no unit" in ctl.fails(FAILED, "plan", "set-rate", "box rack1", "25")
    assert "did you mean job?" in ctl.fails(USAGE, "jbo", "list")
    assert "/window: 65 is not a power of two" in ctl.fails(NOT_MET, "job", "set", "resnet", "window=65")
    assert "/window: " in ctl.fails(NOT_MET, "job", "set", "resnet", "window=-64")
    with open("/dev/full", "w", encoding="utf-8") as full:
        assert subprocess.run([Programs.ctl, "--socket", box.control, "job", "list"], stdout=full, check=False,
                              stderr=subprocess.DEVNULL).returncode == FAILED
    long = pathlib.Path(lab.directory, "long.yaml")
    long.write_text("#" * 1_000_000)
    assert "longer than 65536 bytes" in ctl.fails(FAILED, "config", "check", str(long))
    assert "Is a directory" in ctl.fails(FAILED, "config", "check", lab.directory)
    assert "it is no socket" in ctl.fails(UNREACHABLE, "--socket", str(long), "job", "list")
    assert "No such file" in ctl.fails(FAILED, "config", "check", "/no/such/file")
    assert "nobody is in it" in ctl.fails(FAILED, "job", "abort", "resnet", "--reason", "test")
    bad = pathlib.Path(lab.directory, "bad.yaml")
    bad.write_text(box.config.read_text().replace("discipline", "disciplin"))
    code, out, _ = ctl.run("config", "check", str(bad))
    assert code == NOT_MET and f"{bad}:" in out and "discipline" in out, out
    good = box.config.read_text()
    box.config.write_text("nonsense: 1\n")
    assert "nothing was changed" in ctl.fails(NOT_MET, "config", "reload")
    box.config.write_text(good)
    assert ctl.table("config", "reload").endswith("nothing differs from what runs\n")
    box.kill()
    assert "nobody listens there any more" in ctl.fails(UNREACHABLE, "job", "list")
    box.start()  # the stale socket is no hindrance
    ctl.table("job", "list")
    box.stop()


@case("address", waits=True)
def a_stopped_rank_is_named(lab):
    """SIGSTOP of a rank: 'job show' says which one, where it sits and since when; afterwards nobody is late."""
    job = Job("resnet", workers=3, lease="60s")
    box = run_box(lab, [job], control="access: owner")
    ctl = Ctl(box)
    workers = at_work(box, job)
    workers[1].signal(signal.SIGSTOP)
    shown = wait_until("rank 1 to be late", lambda: next(
        (found for found in [ctl.json("job", "show", "resnet")] if found["late"] == [1]), None))
    assert "rank 1 (10.0.0.2)" in shown["late_text"], shown
    assert shown["ranks"][1]["seen_ns_ago"] > max(shown["ranks"][rank]["seen_ns_ago"] for rank in (0, 2)), shown
    assert "late in resnet: rank 1" in ctl.table("top", "--once", "--interval", "0.1")
    code, out, _ = ctl.run("health")
    assert code == NOT_MET and "late: rank 1" in out, out
    workers[1].signal(signal.SIGCONT)
    wait_until("nobody to be late", lambda: not ctl.json("job", "show", "resnet")["late"])
    go_on(workers)
    finish(workers)
    box.stop()


@case("address")
def an_abort_tells_the_workers_why(lab):
    job = Job("resnet")
    box = run_box(lab, [job, Job("other", workers=2)], control="access: owner")
    ctl = Ctl(box)
    workers = at_work(box, job)
    other = start_job(box, box.jobs[1], "--sizes 5000 --iterations 2 --pause 1")
    for worker in other:
        worker.wait_for("paused")
    ctl.table("job", "abort", "resnet", "--reason", "the data set is wrong")
    for worker in workers:
        error = worker.error()
        assert error["code"] in ("aborted", "closed") and "the data set is wrong" in error["text"], error
        assert worker.program.wait() == 1
    assert "aborted (ended by an operator: the data set is wrong)" in ctl.table("job", "show", "resnet")
    go_on(other)
    finish(other)
    finish(start_job(box, job, "--sizes 5000 --iterations 2"))  # it forms anew
    box.stop()


@case(waits=True)
def others_may_read_or_not_even_that(lab):
    """access: everybody lets any user look and nobody but us change; the other two close the door."""
    if not is_root():
        raise Skipped("needs root to be somebody else")
    job = Job("resnet")
    box = run_box(lab, [job], control="access: everybody")
    ctl = Ctl(box)
    assert ctl.run("job", "list", user=NOBODY)[0] == OK
    for words in (("job", "set", "resnet", "window=64"), ("job", "abort", "resnet", "--reason", "x"),
                  ("config", "reload"), ("config", "check", str(box.config)), ("log", "set", "debug")):
        assert "you may only read" in ctl.fails(NOT_PERMITTED, *words, user=NOBODY), words
        assert "root" in ctl.fails(NOT_PERMITTED, *words, user=NOBODY), words
    assert ctl.json("job", "show", "resnet")["wanted_window"] == 256
    os.seteuid(NOBODY)
    try:
        crowd = [connect(box) for _ in range(64)]
    finally:
        os.seteuid(0)
    assert "64 clients already" in ctl.fails(FAILED, "job", "list", user=NOBODY)
    ctl.table("log", "set", "info")  # who may change things still gets in
    box.wait_for_log("control: root, process ")
    for one in crowd:
        one.close()
    box.stop()
    box = run_box(lab, [job], control="access: group")
    assert "you may not open it" in Ctl(box).fails(NOT_PERMITTED, "job", "list", user=NOBODY)
    box.stop()
    box = run_box(lab, [job], control="access: group, group: nogroup")  # of nobody
    assert Ctl(box).run("job", "set", "resnet", "window=64", user=NOBODY)[0] == OK
    box.stop()


def connect(box):
    """By the effective user: what the kernel tells of us is of this moment."""
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.settimeout(Programs.patience(20))
    one.connect(box.control)
    return one


REQUESTS = [f'{{"jsonrpc":"2.0","id":{number},"method":"{method}","params":{parameters}}}'.encode()
            for number, (method, parameters) in enumerate((
                ("api.version", "{}"), ("api.schema", "{}"), ("health.get", "{}"), ("job.list", "{}"),
                ("job.show", '{"name":"resnet"}'), ("job.show", '{"name":"x"}'), ("port.list", "{}"), ("core.list", "{}"),
                ("slot.show", "{}"), ("drop.list", "{}"), ("stats.get", "{}"), ("config.show", "{}"),
                ("config.check", '{"text":"box: 1"}'), ("config.diff", "{}"),
                ("job.add", '{"job":{"name":"resnet","workers":2}}'), ("job.add", '{"job":{"name":"x","workers":2,"quota":{"cap":"1"}}}'),
                ("job.set", '{"name":"resnet","priority":7}'), ("job.set", '{"name":"resnet","lease":"7s"}'),
                ("job.remove", '{"name":"x","abort":true,"if_revision":7}'), ("log.set", '{"level":"info"}'), ("no.such", "{}"),
                ("trace.start", '{"job":"","port":"p0","way":"in","drop":"","every":9,"frames":9,"seconds":9}'),
                ("trace.read", "{}"), ("trace.stop", "{}"), ("trace.list", "{}"), ("doctor.run", "{}")))]


def random_line(chance):
    """A request, most often with something wrong in it."""
    line = bytearray(chance.choice(REQUESTS))
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(line))
        how = chance.randrange(4)
        if how == 0:
            line[at] = chance.randrange(256)
        elif how == 1:
            del line[at:at + chance.randrange(1, 20)]
        elif how == 2:
            line[at:at] = chance.choice((b"[" * 50, b'{"a":', b"\0", b"\xff", b'"', b"1e999", b"\\ud800"))
        else:
            line[at:at] = line[:chance.randrange(len(line))]
    return bytes(line).replace(b"\n", b" ").replace(b"\r", b" ") or b"x"


@case("address")
def ten_thousand_random_lines(lab):
    """10,000 lines, most of them wrong, by clients that go in the middle: each is answered, and no sum suffers."""
    job = Job("resnet")
    box = run_box(lab, [job], control="access: owner")
    workers = at_work(box, job)
    chance = random.Random(7)
    asked = answered = 0
    for client in range(100):
        with connect(box) as one:
            lines = [random_line(chance) for _ in range(100)]
            one.sendall(b"\n".join(lines))
            asked += len(lines)
            if client % 10 == 0:
                continue  # goes without a word
            one.shutdown(socket.SHUT_WR)
            with one.makefile("rb") as answers:
                for text in answers:
                    answer = json.loads(text)
                    assert ("result" in answer) != ("error" in answer), answer
                    answered += 1
    assert asked == 10_000 and answered > 5_000, (asked, answered)
    go_on(workers)
    finish(workers)
    Ctl(box).table("job", "list")
    box.stop()


@case("address")
def broken_clients_delay_nobody(lab):
    """Clients that do not read, say half a line or a line without end, as many as there may be; others are told so."""
    job = Job("resnet")
    box = run_box(lab, [job], control="access: owner")
    clients = [connect(box) for _ in range(72)]
    for number, one in enumerate(clients):
        one.setblocking(False)
        try:
            one.send(b'{"half' if number % 2 else (REQUESTS[1] + b"\n") * 2000)
        except BlockingIOError:
            pass
    begun = time.monotonic()
    finish(start_job(box, job, "--sizes 5000 --iterations 3"))
    assert time.monotonic() - begun < Programs.patience(60)
    assert "72 clients already" in Ctl(box).fails(FAILED, "job", "list")
    for one in clients:
        one.close()
    wait_until("room for a client", lambda: Ctl(box).run("job", "list")[0] == OK)
    box.stop()


@case(waits=True)
def two_daemons_do_not_share_a_socket(lab):
    """The second one says who is in its way, and takes nothing from the first."""
    box = run_box(lab, [Job("resnet")], control="access: owner")
    first = box.daemon
    box.rename("another")
    second = box.launch()
    assert second.wait() == 1
    assert f"is in use by process {first.pid} (tallyd)" in second.complained(), second.complained()
    box.daemon = first
    Ctl(box).table("job", "list")
    box.stop()


@case(waits=True)
def completion_asks_the_daemon(lab):
    """bash completes nouns, verbs and the names of jobs."""
    box = run_box(lab, [Job("resnet"), Job("bert", workers=1)], control="access: owner")

    def complete(*words):
        script = (f"source {COMPLETION}; PATH={os.path.dirname(Programs.ctl)}:$PATH; COMP_WORDS=(\"$@\"); "
                  "COMP_CWORD=$(($# - 1)); _tallyctl; printf '%s\\n' \"${COMPREPLY[@]}\"")
        return subprocess.run(["bash", "-c", script, "bash", "tallyctl", *words], capture_output=True, text=True,
                              timeout=Programs.patience(30), check=True).stdout.split()

    assert complete("jo") == ["job"]
    assert complete("job", "s") == ["show", "set"]
    assert complete("--socket", box.control, "job", "show", "") == ["resnet", "bert"]
    assert complete("--socket", box.control, "job", "abort", "be") == ["bert"]
    assert complete("--socket", box.control, "job", "remove", "be") == ["bert"]
    assert complete("--socket", box.control, "plan", "") == ["set-rate", "resnet", "bert"]
    assert complete("plan", "--a") == ["--all"] and complete("plan", "set-rate", "box a", "f") == ["file"]
    assert complete("log", "set", "d") == ["debug"]
    assert complete("job", "set", "resnet", "win") == ["window="]
    assert complete("config", "d") == ["diff"] and complete("rest") == ["restart"]
    box.stop()
    assert complete("--socket", box.control, "job", "show", "") == []


WALK = pathlib.Path("/tmp/walk")


@case()
def the_walk_of_the_readme(lab):
    """Word for word: a box, a job that is added, who is late, another priority, an upgrade under a running job, the end."""
    readme = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    script = re.search(r"## A walk\n.*?```sh\n(.*?)```", readme, re.DOTALL).group(1)
    if WALK.exists():
        raise Skipped(f"{WALK}, which the walk uses, is there already")
    os.symlink(Programs.build, os.path.join(lab.directory, "build"))
    # A sanitizer's dlopen does not know where the library that calls it lies.
    beside = {"LD_LIBRARY_PATH": ":".join(sorted({os.path.dirname(file) for file in Programs.libraries}))}
    begin = f"trap 'kill $(jobs -p) 2>/dev/null; exit 1' TERM\ncd {lab.directory}\n"
    walk = lab.run("walk", ["bash", "-c", begin + script], beside if Programs.sanitizer else {})
    try:
        assert walk.wait(60) == 0, walk.complained()
        said = walk.said()
        daemon = (WALK / "log").read_text(encoding="utf-8") + walk.complained()
    finally:
        if walk.runs():
            walk.signal(signal.SIGTERM)
            walk.wait()
        shutil.rmtree(WALK, ignore_errors=True)
    steps = (r"good\n", r"job resnet: declared", r"job resnet: running", r"tally walk +up \d+ s +good +1 job, 2 ports",
             r"late: rank 1 \(10\.0\.0\.11\): silent for [3-9]", r"goes on with another priority", r"jobs go on",
             r"it answers again after", r"job resnet: running.*\n.*priority 200", r"late: nobody", r"removed")
    place = 0
    for step in steps:
        found = re.compile(step).search(said, place)
        assert found, f"no '{step}' behind\n{said[:place]}\nin\n{said[place:]}"
        place = found.end()
    assert daemon.count("ready: ") == 2 and "is removed" in daemon and "aborted" in daemon, daemon
    assert "silent" not in daemon, daemon  # nobody was lost by the upgrade
