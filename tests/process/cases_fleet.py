"""Members of a fleet and boxes of one, with a real etcd on loopback."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

import counters
import fleet
from box import Box, Options
from etcd import b64, Etcd, free_ports, with_users
from fleet import Member, settings_of
from lab import case
from programs import Programs, Stopwatch, wait_until


def three_members(lab, etcd):
    """Members a, b, c that know one another, one of them the planner."""
    members = {name: Member(lab, settings_of(etcd), name) for name in "abc"}
    for member in members.values():
        member.wait_state("three boxes and a planner", lambda state: len(state["boxes"]) == 3 and state["planner"])
    return members


def planner_of(members):
    """The member that is the planner and knows it."""
    def look():
        planners = [member for member in members if member.program.runs() and member.state()["fence"]]
        return planners[0] if len(planners) == 1 else None
    return wait_until(lambda: f"one planner; {[member.state() for member in members]}", look, 60)


@case(waits=True)
def fleet_members_register_plan_and_leave(lab):
    """Three members of a real etcd: records, an elected planner, a job with home and plans, free slots; leaving is at once."""
    etcd = Etcd(lab).start()
    members = three_members(lab, etcd)
    planner = planner_of(members.values())
    others = [member for member in members.values() if member is not planner]
    others[0].tell("declare resnet")
    for member in members.values():
        member.wait_state("the job", lambda state: state["jobs"].get("resnet", {}).get("home") == others[0].member_id)
    planner.tell("plan resnet 1")
    for member in members.values():
        member.wait_state("its plan", lambda state: state["jobs"]["resnet"]["epoch"] == 1)
    others[1].tell("plan resnet 2")
    others[1].wait_for("a refusal", lambda line: line.get("refused") == "this box is not the planner of its fleet")
    others[1].tell("free 77")
    planner.wait_state("what is free", lambda state: state["boxes"][others[1].member_id] == 77)
    assert sorted(etcd.keys("/tally/")) == ["/tally/box/a", "/tally/box/b", "/tally/box/c", "/tally/job/resnet",
                                            "/tally/job/resnet/home", "/tally/plan/resnet/0000000001", "/tally/planner"]
    planner.tell("leave")
    assert planner.program.wait() == 0
    for member in others:
        member.wait_state("its farewell", lambda state: planner.member_id not in state["boxes"], 10)
    planner_of(others)
    others[0].tell("withdraw resnet")
    others[1].wait_state("no job", lambda state: not state["jobs"])
    for member in others:
        member.end()


@case(waits=True)
def fleet_planner_and_home_die(lab):
    """kill -9 of the planner, then of a home: another plans, exactly one takes the home, within seconds."""
    etcd = Etcd(lab).start()
    members = three_members(lab, etcd)
    planner = planner_of(members.values())
    planner.tell("declare resnet")
    for member in members.values():
        member.wait_state("the job", lambda state: state["jobs"].get("resnet", {}).get("home") == planner.member_id)
    planner.program.kill()
    rest = [member for member in members.values() if member is not planner]
    heir = planner_of(rest)
    for member in rest:
        member.wait_state("another home", lambda state: state["jobs"]["resnet"]["home"] in {one.member_id for one in rest})
    wait_until("one home", lambda: sum(member.state()["jobs"]["resnet"]["mine"] for member in rest) == 1)
    heir.tell("plan resnet 1")
    for member in rest:
        member.wait_state("a plan of the heir", lambda state: state["jobs"]["resnet"]["epoch"] == 1)


@case(waits=True)
def fleet_planner_that_slept_cannot_plan(lab):
    """A planner is stopped for longer than its lease, another one plans; awake it learns that it is not the planner, and registers again."""
    etcd = Etcd(lab).start()
    members = three_members(lab, etcd)
    planner = planner_of(members.values())
    rest = [member for member in members.values() if member is not planner]
    rest[0].tell("declare resnet")
    planner.wait_state("the job", lambda state: "resnet" in state["jobs"])
    planner.program.signal(signal.SIGSTOP)
    heir = planner_of(rest)
    heir.tell("plan resnet 1")
    heir.wait_state("its plan", lambda state: state["jobs"]["resnet"]["epoch"] == 1)
    planner.tell("plan resnet 2")  # the first thing that it finds when it wakes
    planner.program.signal(signal.SIGCONT)
    planner.wait_for("a refusal", lambda line: "refused" in line or line.get("verdict", 0) != 0)
    planner.wait_state("to be a member again", lambda state: state["standing"] == "member" and len(state["boxes"]) == 3 and state["lost"] >= 1)
    assert "/tally/plan/resnet/0000000002" not in etcd.keys("/tally/")


@case(waits=True)
def fleet_when_etcd_is_gone_and_back(lab):
    """Killed: every member says so and plans nothing; back, with its data or as new, the fleet is whole again."""
    etcd = Etcd(lab).start()
    members = three_members(lab, etcd)
    planner = planner_of(members.values())
    planner.tell("declare resnet")
    planner.wait_state("the job", lambda state: "resnet" in state["jobs"])
    for wiped in (False, True):
        etcd.kill()
        for member in members.values():
            member.wait_state("to know that it is gone",
                              lambda state: state["standing"] == "away" and state["text"] == f"no connection to {etcd.endpoint}")
            assert len(member.state()["boxes"]) == 3  # what it knew, it knows
        planner.tell("plan resnet 9")
        planner.wait_for("a refusal", lambda line: line.get("refused", "").startswith("the store of the fleet has not answered for "))
        if wiped:
            etcd.wipe()
        etcd.start()
        for member in members.values():
            member.wait_state("to be whole", lambda state: state["standing"] == "member" and len(state["boxes"]) == 3 and state["planner"], 90)
            assert any(note.startswith("the store of the fleet answers again, after ") for note in member.notes()), member.notes()
        planner = planner_of(members.values())
    wait_until("all records again", lambda: len(etcd.keys("/tally/")) == 4, 60)


@case(waits=True)
def fleet_with_users_and_bad_records(lab):
    """A member with a password; what others wrote and is no record is named, and the fleet goes on."""
    etcd, password = with_users(lab)
    member = Member(lab, settings_of(etcd, user="tally", password_file=password), "a")
    member.wait_state("to be a member", lambda state: state["standing"] == "member" and state["fence"])
    token = etcd.post("/v3/auth/authenticate", {"name": "root", "password": "root's"})["token"]
    etcd.post("/v3/kv/put", {"key": b64("/tally/box/b"), "value": b64("{}")}, token)
    member.wait_state("a bad record", lambda state: state["bad"] == 1)
    assert "the record /tally/box/b is ignored: format is missing" in member.notes(), member.notes()
    # One that may not read is told so.
    stranger = Member(lab, settings_of(etcd, user="tally", password_file=password), "b", "/elsewhere")
    stranger.wait_state("to be refused", lambda state: state["standing"] == "refused")
    assert stranger.state()["text"] == "etcd says: etcdserver: permission denied", stranger.state()


class FleetBox(Box):
    """A box of a fleet, without workers; each has its own files."""

    def __init__(self, lab, instance, **fleet_keys):
        self.instance, self.fleet_keys = instance, fleet_keys
        super().__init__(lab, [], Options(spare_ports=1))

    def place_files(self):
        self.socket = os.path.join(self.lab.directory, f"{self.instance}.memif")
        self.config = pathlib.Path(self.lab.directory, f"{self.instance}.yaml")
        self.control = os.path.join(self.lab.directory, f"{self.instance}.sock")

    def yaml(self):
        text = super().yaml().removesuffix("jobs:\n").replace("instance: test", f"instance: {self.instance}-")
        keys = ", ".join(f"{key}: {json.dumps(value)}" for key, value in self.fleet_keys.items())
        return text + f"fleet: {{{keys}}}\n" if keys else text

    def run_program(self, name, command, environment):
        return self.lab.run(f"{self.instance}-{name}", command, environment)

    def fleet(self):
        """What it says of its fleet."""
        return counters.call(self.control, "fleet.show")

    def wait_fleet(self, what, condition, seconds=60):
        wait_until(lambda: f"{what}; {self.instance} says {self.fleet()}", lambda: condition(self.fleet()), seconds)

    def page(self):
        """What tallyctl shows."""
        done = subprocess.run([Programs.ctl, "--socket", self.control, "fleet"], check=True, capture_output=True, text=True)
        return done.stdout


def ids(fleet_shown):
    return [box["id"] for box in fleet_shown["boxes"]]


@case(waits=True)
def fleet_of_two_boxes(lab):
    """tallyd registers, knows the others and the planner, publishes what is free; leaving and dying are seen; a restart is another life."""
    etcd = Etcd(lab).start()
    a, b = (FleetBox(lab, name, endpoints=[etcd.endpoint], id=name).start() for name in ("a", "b"))
    for box in (a, b):
        box.wait_fleet("two boxes", lambda fleet: fleet["standing"] == "member" and ids(fleet) == ["a", "b"])
    assert a.fleet()["planner"] is None and "nobody plans" in a.page(), a.page()
    planner = Member(lab, settings_of(etcd), "p")
    a.wait_fleet("a planner", lambda fleet: fleet["planner"] == "p" and ids(fleet) == ["a", "b", "p"])
    page = a.page()
    assert page.startswith("box a of fleet /tally: member\n") and "nobody plans" not in page, page
    free = a.fleet()["boxes"][0]["free_bytes"]
    assert free > 0
    counters.call(a.control, "job.add", job={"name": "resnet", "workers": 2, "token_file": "none", "window": 4096})
    planner.tell("declare bert")
    b.wait_fleet("the fleet's job", lambda fleet: [(job["name"], job["home"]) for job in fleet["jobs"]] == [("bert", "p")])
    etcd.put("/tally/nonsense", "x")
    b.wait_fleet("a bad record", lambda fleet: fleet["bad_records"] == [{"key": "/tally/nonsense", "why": "it is no key of a fleet"}])
    # A farewell is at once; kill -9 is after the lease; who comes back is another life.
    watch = Stopwatch(a.daemon, b.daemon, etcd.program)
    a.daemon.signal(signal.SIGTERM)
    b.wait_fleet("a's farewell", lambda fleet: "a" not in ids(fleet))
    took = watch.seconds()
    assert took <= 3, f"after {took:.2f} s, as if its lease had ended"
    assert a.daemon.wait() == 0
    a.start()
    b.wait_fleet("a again", lambda fleet: "a" in ids(fleet))
    b.kill()
    a.wait_fleet("b's end", lambda fleet: "b" not in ids(fleet))
    b.start()
    a.wait_fleet("b again", lambda fleet: "b" in ids(fleet))
    restarted = subprocess.run([Programs.ctl, "--socket", a.control, "restart"], check=False, capture_output=True, text=True)
    assert restarted.returncode == 0, restarted.stderr
    wait_until("its next life", lambda: a.daemon.complained().count("box a is registered in the fleet /tally") == 2, 60)
    b.wait_fleet("a in its next life", lambda fleet: "a" in ids(fleet) and fleet["standing"] == "member")
    a.stop()
    b.stop()


@case(waits=True)
def fleet_jobs_go_on_without_etcd(lab):
    """etcd is killed: jobs of the box are summed and made as ever, the box says since when it is gone; and registers when it is back."""
    etcd = Etcd(lab).start()
    box = FleetBox(lab, "a", endpoints=[etcd.endpoint], id="a").start()
    box.wait_fleet("to be a member", lambda fleet: fleet["standing"] == "member")
    etcd.kill()
    box.wait_fleet("etcd to be gone", lambda fleet: fleet["standing"] == "away")
    page = box.page()
    assert page.startswith("box a of fleet /tally: ETCD IS GONE: it answered last "), page
    wait_until("the reason", lambda: f"no connection to {etcd.endpoint}" in box.page())
    counters.call(box.control, "job.add", job={"name": "resnet", "workers": 2, "token_file": "none"})
    problems = counters.call(box.control, "health.get")["problems"]
    assert [problem["what"] for problem in problems] == ["fleet"] and "etcd does not answer since" in problems[0]["text"], problems
    etcd.start()
    box.wait_fleet("to be a member again", lambda fleet: fleet["standing"] == "member" and ids(fleet) == ["a"])
    # Nor does it keep the box from ending.
    etcd.freeze()
    begun = time.monotonic()
    box.stop()
    assert time.monotonic() - begun < Programs.patience(60)
    etcd.thaw()


@case(waits=True)
def fleet_metrics_and_paths(lab):
    """/api/v1/fleet and tally_fleet_*: what tallyctl says; absent of a box that is alone."""
    etcd, password = with_users(lab)
    port = free_ports(1)[0]
    box = FleetBox(lab, "a", endpoints=[etcd.endpoint], id="a", user="tally", password_file=password)
    box.options = Options(spare_ports=1, control=f"http: 127.0.0.1:{port}")
    box.config.write_text(box.yaml())
    box.start()
    box.wait_fleet("to be a member", lambda fleet: fleet["standing"] == "member" and ids(fleet) == ["a"])

    def try_read(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return answer.read().decode()
        except urllib.error.HTTPError as error:
            assert error.code == 503, error  # a control thread that is late; whoever asks again is served
            return None

    def read(path):
        return wait_until(f"an answer of {path}", lambda: try_read(path), 60)
    shown = json.loads(read("/api/v1/fleet"))
    assert shown["in_fleet"] and ids(shown) == ["a"] and shown["standing"] == "member", shown
    wait_until("its metrics", lambda: "\ntally_fleet_member 1\n" in read("/metrics") and "\ntally_fleet_boxes 1\n" in read("/metrics"))
    etcd.kill()
    wait_until("etcd to be gone", lambda: "\ntally_fleet_member 0\n" in read("/metrics"), 60)
    assert float(re.search(r"^tally_fleet_away_seconds (\S+)", read("/metrics"), re.M).group(1)) > 0
    assert "secret" not in read("/api/v1/config") and "tally's" not in read("/api/v1/config")
    box.stop()
    alone = FleetBox(lab, "b")
    alone.options = Options(spare_ports=1, control=f"http: 127.0.0.1:{port}")
    alone.config.write_text(alone.yaml())
    alone.start()
    assert alone.page() == "the box is in no fleet: its configuration has no fleet.endpoints\n"
    assert not json.loads(read("/api/v1/fleet"))["in_fleet"]
    assert not re.search(r"^tally_fleet_", read("/metrics"), re.M)
    alone.stop()
