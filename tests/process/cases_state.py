"""Jobs that are made while the box runs: what keeps them, what ends them, and a restart that ends none."""
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

from box import Box, Job, Options, run_box
from cases_control import FAILED, NOT_MET, Ctl, at_work, connect
from cases_observe import follow
from lab import Skipped, case
from programs import Programs, wait_until
from workers import UNTIL_TOLD, finish, go_on, is_root, start_job

# More of them: TALLY_KILLS=50.
KILLS = int(os.environ.get("TALLY_KILLS", "3"))


def state_folder(lab):
    folder = pathlib.Path(lab.directory, "state")
    folder.mkdir(exist_ok=True)
    return folder


def kept_box(lab, jobs, **options):
    """One that keeps its jobs."""
    folder = state_folder(lab)
    return run_box(lab, jobs, control=f"access: owner, state: {folder}", **options)


def kept_file(lab):
    return next(state_folder(lab).glob("*.jobs.json"))


def words_of(job):
    return [f"name={job.name}", f"workers={job.workers}", "token_file=none", f"window={job.window}", f"lease={job.lease}"]


@case("address")
def jobs_come_change_and_go_by_tallyctl(lab):
    """job add, set and remove with their refusals, while another job runs; config diff tells when a key applies; who
    follows events hears of each."""
    job = Job("resnet")
    box = kept_box(lab, [job], spare_ports=2)
    ctl = Ctl(box)
    events = follow(box, lab)
    workers = at_work(box, job)
    bert = Job("bert", window=64, first_port=2)
    shown = ctl.json("job", "add", *words_of(bert))
    assert shown["made_by"] == "job.add" and shown["kept"] and shown["phase"] == "declared", shown
    assert "there is a job 'bert' already, of job.add" in ctl.fails(FAILED, "job", "add", *words_of(bert))
    assert "of the configuration file" in ctl.fails(FAILED, "job", "add", "name=resnet", "workers=2", "token_file=none")
    assert "/workers: 65 is above 64" in ctl.fails(NOT_MET, "job", "add", "name=x", "workers=65")
    assert "did you mean window?" in ctl.fails(NOT_MET, "job", "add", "name=x", "workers=2", "windw=64")
    file = pathlib.Path(lab.directory, "job.json")
    file.write_text('{"name": "gpt", "workers": 1, "token_file": "none", "quota": {"weight": 1}}')
    assert "gpt" in ctl.table("job", "add", "-f", str(file))
    file.write_text("name: gpt")
    assert "is no JSON object" in ctl.fails(FAILED, "job", "add", "-f", str(file))
    made = start_job(box, bert, f"--sizes 5000 --gap 5 {UNTIL_TOLD}")
    for worker in made:
        worker.wait_for("iteration", 3)
    assert "has workers" in ctl.fails(FAILED, "job", "remove", "bert")
    assert "of the configuration file" in ctl.fails(FAILED, "job", "remove", "resnet")
    # Everything that a running job takes at once, without a wrong sum.
    changed = ctl.json("job", "set", "bert", "window=32", "priority=200", "lease=20s",
                       'stragglers={"timeout":"5s","min":2}')
    assert any("window of 32" in note for note in changed["notes"]), changed["notes"]
    wait_until("bert with its window", lambda: ctl.json("job", "show", "bert")["window"] == 32)
    now = ctl.json("job", "show", "bert")
    assert (now["priority"], now["lease_ns"]) == (200, 20_000_000_000), now
    assert ctl.json("job", "set", "bert", "workers=3")["deferred"]
    assert not ctl.json("job", "set", "bert", "workers=2")["deferred"]
    revision = ctl.json("job", "show", "bert")["revision"]
    assert any("until the next reload" in note for note in ctl.json("job", "set", "resnet", "priority=7")["notes"])
    assert ctl.json("job", "show", "bert")["revision"] == revision + 1
    box.config.write_text(box.config.read_text().replace("mtu: 1500", "mtu: 1400", 1)
                          + "  - {name: bert, workers: 2, token_file: none}\n")
    lines = ctl.table("config", "diff").splitlines()
    for what, when in (("jobs[0].priority", "at once"), ("job 'bert' is new", "at once"), ("ports[0].mtu", "restart")):
        assert any(line.startswith(what) and line.endswith(when) for line in lines), lines
    assert "job 'bert' of the file is not declared" in ctl.run("config", "reload")[1]
    box.config.write_text("nonsense: 1\n")
    assert "nothing was changed" in ctl.fails(NOT_MET, "config", "diff")
    assert "nothing was changed" in ctl.fails(NOT_MET, "restart")
    cluster = pathlib.Path(lab.directory, "cluster.yaml")
    cluster.write_text("nonsense: 1\n")
    box.config.write_text(f"{box.yaml()}planner: {{cluster: {cluster}}}\n")
    for words in (("config", "diff"), ("restart",)):
        assert f"{cluster}:1:" in ctl.fails(NOT_MET, *words), words
    box.config.write_text(box.yaml())
    go_on(made)
    finish(made)
    ctl.table("job", "remove", "bert")
    ctl.table("job", "remove", "gpt", "--abort")
    assert [j["name"] for j in ctl.json("job", "list")["jobs"] if j["phase"] != "gone"] == ["resnet"]
    wait_until("the events", lambda: all(any(kind in line and "'bert'" in line for line in events.said().splitlines())
                                         for kind in ("job.declared", "job.changed", "job.removed")))
    assert json.loads(kept_file(lab).read_text())["jobs"] == []
    go_on(workers)
    finish(workers)
    box.stop()


@case("address")
def killed_with_twenty_jobs_under_load(lab):
    """kill -9 while two of twenty made jobs work and others are made: all that was promised is back, every sum right."""
    box = kept_box(lab, [Job("file", workers=1)], spare_ports=4)
    ctl = Ctl(box)
    jobs = [Job(f"made{number}", window=16, first_port=1 + 2 * (number % 2)) for number in range(20)]
    for job in jobs:
        ctl.table("job", "add", *words_of(job))
    workers = [worker for job in jobs[:2] for worker in start_job(box, job, f"--sizes 20000,353 --gap 5 {UNTIL_TOLD}")]
    promised = {"file"} | {job.name for job in jobs}
    for kill in range(1, KILLS + 1):
        for worker in workers:
            worker.wait_for("iteration", len(worker.events("iteration")) + 3)
        # One is being made while the daemon dies: it is there or it is not, and the others are.
        late = f"late{kill}"
        with subprocess.Popen([Programs.ctl, "--socket", box.control, "job", "add", f"name={late}", "workers=2",
                               "token_file=none", "window=16"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as one:
            time.sleep(0.004 * (kill % 5))
            box.kill()
            if one.wait(Programs.patience(20)) == 0:
                promised.add(late)
        box.start()
        there = {job["name"] for job in ctl.json("job", "list")["jobs"]}
        assert promised <= there <= promised | {late}, (promised - there, there - promised)
        promised = there
    assert not list(state_folder(lab).glob("*.unfit*"))
    go_on(workers)
    finish(workers[:2])
    finish(workers[2:])
    for worker in workers:
        statistics = worker.statistics()
        assert statistics["epochs"] == 1 + KILLS and statistics["generations"] == 1, statistics
    box.stop()


class UpgradableBox(Box):
    """Its tallyd is a copy, which can be replaced while it runs."""

    def launch(self, *arguments):
        program = os.path.join(self.lab.directory, "tallyd")
        shutil.copy(Programs.tallyd, program)
        original, Programs.tallyd = Programs.tallyd, program
        try:
            return super().launch(*arguments)
        finally:
            Programs.tallyd = original

    def upgrade(self):
        """As a package does it: the running program keeps its file, which has no name any more."""
        fresh = os.path.join(self.lab.directory, "tallyd.new")
        shutil.copy(Programs.tallyd, fresh)
        os.rename(fresh, os.path.join(self.lab.directory, "tallyd"))

    def lives_begun(self):
        return self.daemon.complained().count("ready: ")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.daemon.pid}/fd"))


@case("release", "address")
def an_upgrade_ends_no_job(lab):
    """tallyctl restart with another program on the disk: the same process, every sum right, nobody is aborted, and no file
    of the life before is left open."""
    job = Job("resnet", lease="30s")
    box = UpgradableBox(lab, [job], Options(control=f"access: owner, state: {state_folder(lab)}", spare_ports=2)).start()
    ctl = Ctl(box)
    made = Job("bert", window=64, first_port=2, lease="30s")
    ctl.table("job", "add", *words_of(made))
    workers = at_work(box, job) + at_work(box, made)
    files = box.open_files()
    for upgrade in (1, 2):
        box.upgrade()
        assert os.readlink(f"/proc/{box.daemon.pid}/exe").endswith("(deleted)")
        said = ctl.table("restart")
        assert "jobs go on" in said and "it answers again after " in said, said
        assert box.lives_begun() == upgrade + 1
        assert ctl.json("job", "show", "bert")["name"] == "bert"  # of the new one, at once
        assert os.path.samefile(f"/proc/{box.daemon.pid}/exe", os.path.join(lab.directory, "tallyd"))
        for worker in workers:
            worker.wait_for("iteration", len(worker.events("iteration")) + 3, 60)
        wait_until("as many open files as before", lambda: box.open_files() <= files)
    assert ctl.json("job", "show", "bert")["made_by"] == "job.add"
    go_on(workers)
    finish(workers[:2])
    finish(workers[2:])
    for worker in workers:
        assert len(worker.events("started")) == 1
        statistics = worker.statistics()
        assert statistics["epochs"] == 3 and statistics["generations"] == 1, statistics
    box.stop()


@case("address")
def a_restart_without_a_program_ends_nothing(lab):
    """An upgrade that went wrong, or is half done: the verb is refused by the name of what is missing, and jobs go on."""
    job = Job("resnet", lease="30s")
    box = UpgradableBox(lab, [job], Options(control=f"access: owner, state: {state_folder(lab)}")).start()
    ctl = Ctl(box)
    workers = at_work(box, job)
    program = pathlib.Path(lab.directory, "tallyd")
    program.unlink()
    assert f"no program to begin anew with: {program}: No such file" in ctl.fails(FAILED, "restart")
    for worker in workers:
        worker.wait_for("iteration", len(worker.events("iteration")) + 3)
    go_on(workers)
    finish(workers)
    assert all(worker.statistics()["epochs"] == 1 for worker in workers)
    box.stop()


@case("address")
def who_ends_a_daemon_that_restarts_ends_it(lab):
    """SIGTERM between the answer of tallyctl restart and the new program: no other daemon takes its place."""
    box = kept_box(lab, [Job("resnet")])
    with connect(box) as client, client.makefile("rb") as answers:
        client.sendall(b'{"jsonrpc":"2.0","id":1,"method":"daemon.restart"}\n')
        assert "result" in json.loads(answers.readline())
        box.daemon.signal(signal.SIGTERM)
    assert box.daemon.wait() in (0, -signal.SIGTERM), box.daemon.complained()
    assert box.daemon.complained().count("ready: ") == 1, box.daemon.complained()


@case("address")
def sigusr2_keeps_jobs_and_sigterm_does_not(lab):
    """What the unit's restart sends ends the daemon with 0 and no job; the one that follows has them all."""
    job = Job("resnet", lease="30s")
    box = kept_box(lab, [job])
    workers = at_work(box, job)
    box.daemon.signal(signal.SIGUSR2)
    assert box.daemon.wait() == 0
    assert "jobs are kept" in box.daemon.complained()
    assert not any(worker.events("error") for worker in workers)
    box.start()
    go_on(workers)
    finish(workers)
    assert all(worker.statistics()["epochs"] == 2 for worker in workers)
    box.stop()


@case(waits=True)
def a_full_disk_fails_the_verb_and_changes_nothing(lab):
    """ENOSPC on a file system of its own: -32015 with its reason, the job is not there, and what was kept is."""
    if not is_root():
        raise Skipped("needs root to mount a file system")
    folder = state_folder(lab)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], check=False).returncode != 0:
        raise Skipped("no file system can be mounted here")
    try:
        box = kept_box(lab, [Job("resnet")])
        ctl = Ctl(box)
        ctl.table("job", "add", "name=first", "workers=2", "token_file=none", "window=16")
        kept = kept_file(lab).read_text()
        with open(folder / "ballast", "wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(b"x" * 4096)
            except OSError:
                pass
        said = ctl.fails(FAILED, "job", "add", "name=second", "workers=2", "token_file=none", "window=16")
        assert "No space left on device" in said and "nothing was changed" in said, said
        assert "No space left" in ctl.fails(FAILED, "job", "set", "first", "priority=7")
        assert "No space left" in ctl.fails(FAILED, "job", "remove", "first")
        assert {j["name"] for j in ctl.json("job", "list")["jobs"]} == {"resnet", "first"}
        assert ctl.json("job", "show", "first")["priority"] == 100
        assert kept_file(lab).read_text() == kept
        (folder / "ballast").unlink()
        ctl.table("job", "set", "first", "priority=7")
        box.kill()
        box.start()
        assert ctl.json("job", "show", "first")["priority"] == 7
        box.stop()
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


@case(waits=True)
def an_unfit_state_file_is_set_aside(lab):
    """Torn: named in the log, kept under another name, and the box starts with the jobs of its file."""
    box = kept_box(lab, [Job("resnet")])
    ctl = Ctl(box)
    ctl.table("job", "add", "name=made", "workers=2", "token_file=none", "window=16")
    box.stop()
    file = kept_file(lab)
    torn = file.read_bytes()[:-20]
    file.write_bytes(torn)
    box.start()
    box.wait_for_log(f"It is {file}.unfit from now on")
    assert pathlib.Path(f"{file}.unfit").read_bytes() == torn
    assert [j["name"] for j in ctl.json("job", "list")["jobs"]] == ["resnet"]
    ctl.table("job", "add", "name=made", "workers=2", "token_file=none", "window=16")
    box.stop()
    box.start()
    assert ctl.json("job", "show", "made")["kept"]
    box.stop()


@case(waits=True)
def without_a_folder_tallyctl_says_so(lab):
    """control.state: none: the job is there until tallyd ends, the answer says that, and a restart is refused."""
    box = run_box(lab, [Job("resnet")], control="access: owner, state: none")
    ctl = Ctl(box)
    said = ctl.table("job", "add", "name=made", "workers=2", "token_file=none", "window=16")
    assert "it is gone when tallyd ends: control.state is none" in said, said
    assert "job 'made' would be lost" in ctl.fails(FAILED, "restart")
    box.daemon.signal(signal.SIGUSR2)  # of systemctl restart, which nobody can refuse any more
    assert box.daemon.wait() == 0
    assert "job 'made' will be lost" in box.daemon.complained(), box.daemon.complained()
    box.start()
    assert [j["name"] for j in ctl.json("job", "list")["jobs"]] == ["resnet"]
    box.stop()
    box = Box(lab, [Job("resnet")], Options(control="access: owner, state: /no/such/folder"))
    daemon = box.launch()
    assert daemon.wait() == 1
    assert "control.state: /no/such/folder is no folder" in daemon.complained(), daemon.complained()


@case("address")
def groups_come_and_go_by_themselves(lab):
    """Workers of a job form groups that nobody declared: each is a job by its own, with exact sums, seen and named as what it
    is, bounded, and forgotten when nobody was in it for a while. Who has another token makes none."""
    job = Job("resnet", workers=2, token="secret", admit="{groups: 2, idle: 1s}")
    box = run_box(lab, [job], spare_ports=3)
    ctl = Ctl(box)
    events = follow(box, lab)
    workers = at_work(box, job)
    pair = dataclasses.replace(job, name="resnet/dp/0", first_port=2, admit="off")
    grouped = at_work(box, pair)
    shown = ctl.json("job", "show", "resnet/dp/0")
    assert (shown["made_by"], shown["group_of"], shown["kept"]) == ("group", "resnet", False), shown
    assert "job resnet/dp/0: running, a group of job resnet" in ctl.table("job", "show", "resnet/dp/0")
    assert "is a group of job 'resnet'" in ctl.fails(FAILED, "job", "remove", "resnet/dp/0")
    assert "is a group of job 'resnet'" in ctl.fails(FAILED, "job", "set", "resnet/dp/0", "priority=1")
    assert "'resnet/dp/0' is not a name" in ctl.fails(NOT_MET, "job", "add", "name=resnet/dp/0", "workers=1", "token_file=none")

    def refused(name, **other):
        alone = dataclasses.replace(pair, name=name, workers=1, first_port=4, **other)
        (worker,) = start_job(box, alone)
        assert worker.program.wait() != 0
        return str(worker.events("error"))

    assert "wrong token" in refused("resnet/x", token="guess")
    assert "is not declared" in refused("bert/x")
    assert "is not declared" in refused("resnet/ x")
    ctl.table("job", "set", "resnet", "admit.groups=1")
    assert "has 1 groups already" in refused("resnet/x")
    drops = {drop["name"]: drop["count"] for drop in ctl.json("drop", "list")["drops"]}
    assert drops["groups"] == 1, drops
    go_on(workers + grouped)
    finish(workers)
    finish(grouped)
    wait_until("the group forgotten", lambda: [job["name"] for job in ctl.json("job", "list")["jobs"]] == ["resnet"])
    told = [line for line in events.said().splitlines() if "resnet/dp/0" in line]
    assert "job.declared" in told[0] and "a group of job 'resnet' with 2 workers" in told[0], told
    assert "job.removed" in told[-1], told
    box.stop()
