"""What one sees of a running box: events that are followed, traces that Wireshark reads, the doctor, its last counters."""
import collections
import json
import os
import pathlib
import pty
import select
import shutil
import signal
import subprocess
import time

from box import Job, run_box
from cases_control import FAILED, NOT_MET, OK, UNREACHABLE, Ctl, at_work, connect
from lab import NOBODY, Skipped, case
from programs import Programs, wait_until
from workers import finish, go_on, is_root, start_job

ROOT = pathlib.Path(__file__).resolve().parents[2]
DISSECTOR = ROOT / "tools/wireshark/tally.lua"
COMPLETION = ROOT / "control/ctl/_tallyctl"


def follow(box, lab):
    """tallyctl events, which has been heard."""
    ctl = lab.run("events", [Programs.ctl, "--socket", box.control, "events"], {})
    hear(box, ctl)
    return ctl


def hear(box, ctl):
    """A reload says something of itself, to whom follows by then."""
    def heard():
        box.reload()
        time.sleep(0.1)
        return "config.reloaded" in ctl.said()

    wait_until("an event", heard)


@case("address")
def events_tell_the_life_of_a_job(lab):
    """Joined, running, left, ended, with the job and the rank; a wrong token warns; numbers have no gap."""
    job = Job("resnet", workers=2, token="s3cret")
    box = run_box(lab, [job], control="access: owner")
    people = follow(box, lab)
    program = lab.run("events.json", [Programs.ctl, "--socket", box.control, "-o", "json", "events"], {})
    hear(box, program)
    workers = at_work(box, job)
    # Links are looked at ten times a second: a job that is quicker than that comes and goes unseen.
    wait_until("the link of rank 0", lambda: "port p0: link up" in program.said())
    go_on(workers)
    finish(workers)
    wait_until("the end of the job", lambda: "job.ended" in program.said())
    box.config.write_text("nonsense: 1\n")
    box.daemon.signal(signal.SIGHUP)
    wait_until("the warning", lambda: "nothing was changed" in program.said())
    box.stop()
    assert program.wait() == UNREACHABLE and people.wait() == UNREACHABLE, "the daemon has gone"
    events = [json.loads(line) for line in program.said().splitlines()]
    assert [event["number"] for event in events] == list(range(events[0]["number"], events[0]["number"] + len(events)))
    joined = sorted(event["rank"] for event in events if event["event"] == "job.joined")
    kinds = collections.Counter(event["event"] for event in events if event["job"] == "resnet")
    assert joined == [0, 1] and kinds["job.running"] == 1 and kinds["job.ended"] == 1, kinds
    assert all(abs(event["unix_ns"] * 1e-9 - time.time()) < 300 for event in events)
    assert any(event["event"] == "port.up" and event["port"] == "p0" for event in events), events
    assert any(event["event"] == "log" and event["level"] == "error" for event in events), events
    assert "job.running" in people.said() and "rank 1 joined from 10.0.0.2 (port p1)" in people.said(), people.said()


@case("address")
def events_of_an_abort_and_of_evictions(lab):
    """Who was silent is in the event; jobs that take each other's slots say so once a second."""
    jobs = [Job("dies", workers=2, lease="3s"), Job("one", discipline="shared"), Job("other", discipline="shared")]
    box = run_box(lab, jobs, shared_slots=8, control="access: owner")
    ctl = follow(box, lab)
    dies = start_job(box, jobs[0], "--sizes 20000 --iterations 100000")
    sharing = [worker for job in jobs[1:] for worker in start_job(box, job, "--sizes 50000 --iterations 400")]
    for worker in dies:
        worker.wait_for("iteration", 3)
    dies[1].program.kill()
    wait_until("the abort", lambda: "job.aborted" in ctl.said())
    assert "rank 1 at 10.0.0.2 was silent for" in ctl.said(), ctl.said()
    for worker in sharing:
        assert worker.program.wait(60) == 0
    wait_until(lambda: f"evictions to be told; it said:\n{ctl.said()}", lambda: "slots.evicted" in ctl.said())
    box.stop()


@case()
def a_follower_that_does_not_read_delays_nobody(lab):
    """It loses events and is told how many; a job beside it runs, and so do other clients."""
    job = Job("resnet", workers=2)
    box = run_box(lab, [job], control="access: owner")
    ctl = Ctl(box)
    with connect(box) as slow, connect(box) as talker:
        slow.sendall(b'{"jsonrpc":"2.0","id":1,"method":"event.subscribe"}\n')
        with slow.makefile("rb") as lines, talker.makefile("rb") as answers:
            assert json.loads(lines.readline())["result"]["following"]
            # Each is at least one event. Who takes nothing for a minute is sent away, and a busy machine may need longer for
            # all: then fewer have to do.
            asked, end = 0, time.monotonic() + 40
            while asked < 4000 and time.monotonic() < end:
                talker.sendall(b"".join(
                    b'{"jsonrpc":"2.0","id":%d,"method":"job.set","params":{"name":"resnet","priority":%d}}\n'
                    % (number, 1 + number % 2) for number in range(asked, asked + 20)))
                for number in range(asked, asked + 20):
                    assert json.loads(answers.readline())["id"] == number
                asked += 20
            finish(start_job(box, job, "--sizes 5000 --iterations 3"))
            ctl.table("job", "list")
            seen = lost = 0
            while seen + lost < asked:
                event = json.loads(lines.readline())["params"]
                if event["event"] == "lost":
                    lost += event["count"]
                else:
                    seen += 1
            assert seen > 0 and (lost > 0 or asked < 4000), (seen, lost, asked)
    box.stop()


def tshark(path, *fields):
    """Rows of the fields, as the dissector of this tree has them."""
    program = shutil.which("tshark")
    if not program:
        raise Skipped("needs tshark: apt-get install tshark")
    words = [word for field in fields for word in ("-e", field)]
    done = subprocess.run([program, "-X", f"lua_script:{DISSECTOR}", "-r", str(path), "-n", "-T", "fields", *words],
                          capture_output=True, text=True, timeout=120, check=False,
                          env={"PATH": os.environ["PATH"], "HOME": str(path.parent), "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


@case("address")
def a_trace_is_what_wireshark_reads(lab):
    """Frames in and out with what became of them, of one job, from ports of their names; bounded in number."""
    jobs = [Job("resnet", workers=2), Job("other", workers=1)]
    box = run_box(lab, jobs, control="access: owner")
    ctl = Ctl(box)
    workers = at_work(box, jobs[0]) + at_work(box, jobs[1])
    path = pathlib.Path(lab.directory, "resnet.pcapng")
    code, out, said = ctl.run("trace", "write", str(path), "--job", "resnet", "--frames", "500", "--seconds", "20")
    assert code == OK and not out and "500 frames, " in said and "as many frames as were wanted" in said, (code, out, said)
    rows = tshark(path, "frame.number", "frame.comment", "frame.packet_flags_direction", "frame.interface_name", "tally.job",
                  "tally.type")
    assert len(rows) == 500, len(rows)
    ways = collections.Counter(row[2] for row in rows)
    assert len(ways) == 2 and min(ways.values()) > 20, ways
    assert {row[3] for row in rows} == {"p0", "p1"}, "ports of the other job are not in it"
    assert len({row[4] for row in rows}) == 1 and rows[0][4], "one job, which the dissector knows"
    comments = collections.Counter(row[1] for row in rows)
    for words in ("core 0: absorb, job resnet", "core 0: complete, job resnet", "core 0: sent, job resnet"):
        assert comments[words] > 0, comments
    assert "500 frames read" in ctl.table("trace", "list")
    go_on(workers)
    finish(workers[:2])
    finish(workers[2:])
    box.stop()


@case("address")
def a_trace_of_what_is_dropped(lab):
    """Only frames that were dropped, with the reason and its sentence; the wish is checked; one trace at a time."""
    job = Job("resnet", workers=3)
    box = run_box(lab, [job], impair="duplicate: 10%", control="access: owner")
    ctl = Ctl(box)
    workers = at_work(box, job)
    path = pathlib.Path(lab.directory, "drops.pcapng")
    assert "there is no job 'resnt'; did you mean resnet?" in ctl.fails(FAILED, "trace", "write", str(path), "--job", "resnt")
    assert "there is no port 'p9'" in ctl.fails(FAILED, "trace", "write", str(path), "--port", "p9")
    assert "did you mean stale?" in ctl.fails(FAILED, "trace", "write", str(path), "--drop", "stael")
    assert "nothing that leaves is dropped" in ctl.fails(FAILED, "trace", "write", str(path), "--drop", "any", "--way", "out")
    assert "there was no trace yet" in ctl.table("trace", "list")
    first = lab.run("trace", [Programs.ctl, "--socket", box.control, "trace", "write", str(path), "--drop", "any",
                              "--seconds", "60", "--frames", "20"], {})
    assert first.wait(90) == 0, first.complained()
    rows = tshark(path, "frame.comment", "frame.packet_flags_direction")
    assert len(rows) == 20 and len({row[1] for row in rows}) == 1, rows
    assert all("dropped, " in row[0] and row[0].endswith(".") for row in rows), rows
    go_on(workers)
    finish(workers)
    box.stop()


@case("address", waits=True)
def a_trace_ends_with_its_reader(lab):
    """Control-C leaves a whole file; kill -9 leaves no trace that runs for ever, and another one can begin."""
    job = Job("resnet", workers=2)
    box = run_box(lab, [job], control="access: owner")
    ctl = Ctl(box)
    workers = at_work(box, job)
    path = pathlib.Path(lab.directory, "trace.pcapng")
    words = [Programs.ctl, "--socket", box.control, "trace", "write", str(path), "--seconds", "3600", "--frames", "1000000",
             "--every", "100"]
    trace = lab.run("trace", words, {})
    wait_until("some frames", lambda: path.exists() and path.stat().st_size > 10_000)
    trace.signal(signal.SIGINT)
    assert trace.wait() == 0 and "it was stopped" in trace.complained(), trace.complained()
    assert len(tshark(path, "frame.number")) > 10
    trace = lab.run("trace2", words, {})
    wait_until("the trace", lambda: "a trace runs" in ctl.table("trace", "list"))
    whole = path.read_bytes()
    assert "a trace runs already" in ctl.fails(FAILED, "trace", "write", str(path))
    assert path.read_bytes().startswith(whole), "who is refused writes no file"
    trace.kill()
    wait_until("its end", lambda: "has ended, as nobody reads it" in ctl.table("trace", "list"))
    code, _, said = ctl.run("trace", "write", "/dev/full", "--frames", "10")
    assert code == FAILED and "No space left" in said, said
    assert "has ended, as it was stopped" in ctl.table("trace", "list")
    go_on(workers)
    finish(workers)
    box.stop()


@case(waits=True)
def the_doctor_finds_no_problem_here(lab):
    """With a daemon that runs and without one: a machine that runs a box has no problem; who may not ask is told."""
    box = run_box(lab, [Job("resnet")], control="access: everybody")
    ctl = Ctl(box)
    code, out, said = ctl.run("doctor")
    assert code == OK and not said, (code, out, said)
    assert all(len(line) <= 80 for line in out.splitlines()), out
    found = json.loads(ctl.table("doctor", "-o", "json"))["findings"]
    assert all(one["severity"] == "slower" and one["what"] and one["why"] and one["fix"] for one in found), found
    assert out == "nothing to mend\n" or found, out
    if is_root():
        code, _, said = ctl.run("doctor", user=NOBODY)
        assert code in (OK, NOT_MET) and "you may only read" in said and "of the machine alone" in said, said
    box.stop()
    code, out, said = ctl.run("doctor")
    assert code == OK and "of the machine alone" in said and out, (code, out, said)


@case(waits=True)
def the_doctor_finds_what_a_box_lacks(lab):
    """A directory of sockets that everybody may write to is a problem: exit code 3, and the command mends it."""
    folder = pathlib.Path(lab.directory, "open")
    folder.mkdir()
    folder.chmod(0o777)
    box = run_box(lab, [Job("resnet")], control="access: owner")
    box.control = str(folder / "control.sock")
    box.config.write_text(box.yaml())
    box.stop()
    box.start()
    ctl = Ctl(box)
    code, out, _ = ctl.run("doctor")
    assert code == NOT_MET and f"problem: everybody may replace sockets in {folder}" in out, out
    subprocess.run(["sh", "-c", f"chmod o-w {folder}"], check=True)
    assert ctl.run("doctor")[0] == OK
    box.stop()


@case(waits=True)
def final_counters_are_there_or_it_does_not_start(lab):
    """JSON as stats.get answers; of a tallyd that was killed nothing is there."""
    job = Job("resnet")
    box = run_box(lab, [job])
    finish(start_job(box, job, "--sizes 5000 --iterations 3"))
    before = box.counters()
    box.kill()
    assert box.final_counters() is None
    box.start()
    after = box.stop()
    assert after.stats.keys() == before.stats.keys()
    table = box.daemon.said()
    assert "counters after " in table and "resnet" in table, "people have theirs"
    box.final = "/no/such/folder/counters.json"
    daemon = box.launch()
    assert daemon.wait() == 1
    assert "cannot start: --final-counters: cannot write /no/such/folder/counters.json: No such file" in daemon.complained(), \
        daemon.complained()
    box.final = "/dev/full"
    box.start()
    box.daemon.signal(signal.SIGTERM)
    assert box.daemon.wait() == 1 and "--final-counters: cannot write: No space left" in box.daemon.complained()


def complete_in_zsh(lab, line):
    """What zsh offers for it: a shell of its own, to which Tab is pressed."""
    zsh = shutil.which("zsh")
    if not zsh:
        raise Skipped("needs zsh: apt-get install zsh")
    home = pathlib.Path(lab.directory, "zsh")
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    hits = home / "hits"
    (home / "_tallyctl").symlink_to(COMPLETION)
    (home / ".zshrc").write_text(
        f"PATH={os.path.dirname(Programs.ctl)}:$PATH\nfpath=({home} $fpath)\nautoload -Uz compinit; compinit -D -u\n"
        f'compadd () {{ local -a hits; builtin compadd -O hits "$@"; print -rl -- $hits >> {hits}; builtin compadd "$@" }}\n'
        f"zle -N done-here; done-here () {{ touch {home}/done }}\nbindkey '^X' done-here\nPS1='READY'\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["ZDOTDIR"] = str(home)
        os.execv(zsh, [zsh, "-i"])
    try:
        seen = b""

        def ready():
            nonlocal seen
            while select.select([terminal], [], [], 0)[0]:
                seen += os.read(terminal, 4096)
            return b"READY" in seen

        wait_until("zsh", ready)
        os.write(terminal, line.encode() + b"\t\x18")
        wait_until("its completion", lambda: ready() and (home / "done").exists())
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return set(hits.read_text().split()) if hits.exists() else set()


@case()
def zsh_asks_the_daemon(lab):
    """zsh completes nouns, verbs, options and the names of jobs."""
    box = run_box(lab, [Job("resnet"), Job("bert", workers=1)], control="access: owner")
    assert complete_in_zsh(lab, "tallyctl jo") == {"job"}
    assert complete_in_zsh(lab, "tallyctl job s") == {"show", "set"}
    assert complete_in_zsh(lab, f"tallyctl --socket {box.control} job show ") == {"resnet", "bert"}
    assert {"--once", "--interval"} <= complete_in_zsh(lab, "tallyctl top --")
    assert complete_in_zsh(lab, "tallyctl job set resnet win") == {"window="}
    assert {"name=", "workers="} <= complete_in_zsh(lab, "tallyctl job add ")
    assert complete_in_zsh(lab, "tallyctl config d") == {"diff"}
    assert {"--drop", "--frames"} <= complete_in_zsh(lab, "tallyctl trace write x --")
    box.stop()
