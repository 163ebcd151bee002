"""etcd's client and members of a fleet, with a real etcd on loopback."""
import http.server
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.request

import counters
import fleet
from box import Box, Options
from etcd import b64, cluster_of, Etcd, free_ports, Tls
from fleet import Client, Member, settings_of
from lab import case
from programs import Programs, Stopwatch, wait_until

MEBIBYTE = 1 << 20


@case()
def etcd_and_the_store_in_memory_agree(lab):
    """500 random requests each of three kinds of luck: the store that unit tests use answers as etcd does, and tells the same changes."""
    for seed in (1, 2, 3):
        etcd = Etcd(lab, name=f"etcd{seed}").start()
        done = fleet.Speaker(lab, "comparison", "compare", settings_of(etcd), str(seed), "500")
        assert done.program.wait(120) == 0, done.said()
        assert done.said()[-1]["changes"] > 200, done.said()
        etcd.kill()


@case()
def etcd_client_makes_every_call(lab):
    """Put, read, erase, transactions, leases, a watch; and each fault that a store has, as etcd says it."""
    etcd = Etcd(lab).start()
    client = Client(lab, settings_of(etcd))
    watch = client.watch("/t/", 1)
    first = client.do("put", key="/t/a", value="1")["revision"]
    client.do("put", key="/t/b", value="2")
    client.do("put", key="/t2", value="other")
    read = client.do("read", key="/t/", prefix=True)
    assert [(pair["key"], pair["value"]) for pair in read["pairs"]] == [("/t/a", "1"), ("/t/b", "2")] and read["count"] == 2, read
    newest = client.do("read", key="/t/", prefix=True, newest=True)
    assert [pair["key"] for pair in newest["pairs"]] == ["/t/b"] and newest["count"] == 2, newest
    seat = {"compare": [{"key": "/t/seat", "created": 0}], "then": [{"op": "put", "key": "/t/seat", "value": "me"}],
            "otherwise": [{"op": "read", "key": "/t/seat"}]}
    assert client.do("txn", **seat)["held"]
    again = client.do("txn", **seat)
    assert not again["held"] and again["reads"][0][0]["value"] == "me", again
    for compare in ({"key": "/t/a", "created": first}, {"key": "/t/a", "modified": first}, {"key": "/t/a", "value": "1"}):
        assert client.do("txn", compare=[compare])["held"], compare
    lease = client.do("grant", ttl=60)
    assert lease["ttl"] == 60
    client.do("put", key="/t/leased", value="x", lease=lease["lease"])
    assert client.do("keep", lease=lease["lease"])["ttl"] == 60
    client.do("revoke", lease=lease["lease"])
    assert client.do("keep", lease=lease["lease"])["ttl"] == 0
    assert client.ask("put", key="/t/x", lease=lease["lease"])["fault"] == "no lease"
    assert client.ask("revoke", lease=lease["lease"])["fault"] == "no lease"
    client.do("erase", key="/t/", prefix=True)
    wait_until(lambda: f"ten changes; {client.changes(watch)}", lambda: len(client.changes(watch)) == 8)
    assert [change["key"] for change in client.changes(watch)] == ["/t/a", "/t/b", "/t/seat", "/t/leased", "/t/leased", "/t/a",
                                                                   "/t/b", "/t/seat"]
    invalid = client.ask("txn", then=[{"op": "put", "key": "/t/a"}, {"op": "put", "key": "/t/a"}])
    assert invalid["fault"] == "invalid" and "duplicate key" in invalid["text"], invalid
    client.end()


@case()
def etcd_values_up_to_a_mebibyte(lab):
    """Eight of them are read and heard at once; one byte more is refused before it is sent, and says so."""
    etcd = Etcd(lab).start()
    client = Client(lab, settings_of(etcd))
    for i in range(8):
        client.do("put", key=f"/big/{i}", bytes=MEBIBYTE)
    read = client.do("read", key="/big/", prefix=True, ms=20000)
    assert [pair["bytes"] for pair in read["pairs"]] == [MEBIBYTE] * 8
    watch = client.watch("/big/", 1)
    wait_until("eight large changes", lambda: len(client.changes(watch)) == 8, 60)
    refused = client.ask("put", key="/big/x", bytes=MEBIBYTE + 1)
    assert refused["fault"] == "too large", refused
    assert refused["text"] == "the value of /big/x has 1048577 bytes, at most 1048576 are allowed", refused
    assert len(etcd.keys("/big/")) == 8
    client.end()


@case()
def etcd_watch_goes_on_over_restarts(lab):
    """Killed and started again, three times: each change is heard once, in its order."""
    etcd = Etcd(lab).start()
    client = Client(lab, settings_of(etcd))
    watch = client.watch("/t/", 1)
    for life in range(3):
        for i in range(5):
            etcd.put(f"/t/{i}", str(life))
        wait_until("changes", lambda n=5 * life + 5: len(client.changes(watch)) >= n, 60)
        etcd.kill()
        refused = client.ask("read", key="/t/0", ms=3000)
        assert refused["fault"] == "unreachable" and refused["text"] == f"no connection to {etcd.endpoint}", refused
        etcd.start()
    etcd.put("/t/end", "end")
    wait_until("the last change", lambda: len(client.changes(watch)) >= 16, 60)
    assert [(change["key"], change["value"]) for change in client.changes(watch)] == [
        (f"/t/{i}", str(life)) for life in range(3) for i in range(5)] + [("/t/end", "end")]
    client.end()


@case()
def etcd_that_forgot_ends_the_watch(lab):
    """What was compacted while the client was away cannot be told: the watch is over, once, and says so."""
    etcd = Etcd(lab).start()
    client = Client(lab, settings_of(etcd))
    for i in range(10):
        etcd.put("/t/a", str(i))
    etcd.post("/v3/kv/compaction", {"revision": "8"})
    watch = client.watch("/t/", 3)
    over = client.wait_for("the end of the watch", lambda line: line.get("over") == watch)
    assert over["text"] == "etcd has forgotten changes up to revision 8", over
    # From there on it can.
    watch = client.watch("/t/", 8)
    wait_until("what is left", lambda: len(client.changes(watch)) == 4)
    # One that is up to date is not touched.
    etcd.post("/v3/kv/compaction", {"revision": str(etcd.put("/t/a", "x"))})
    etcd.put("/t/a", "y")
    wait_until("what came then", lambda: len(client.changes(watch)) == 6)
    assert sum("over" in line for line in client.said()) == 1
    client.end()


@case()
def etcd_that_stands_still(lab):
    """kill -STOP: answers come by their deadlines, a keep-alive that may wait does; then all goes on. Ending does not wait for it."""
    etcd = Etcd(lab).start()
    client = Client(lab, settings_of(etcd))
    watch = client.watch("/t/", 1)
    lease = client.do("grant", ttl=60)["lease"]
    client.do("put", key="/t/a", value="0", lease=lease)
    wait_until("the first change", lambda: client.changes(watch))
    etcd.freeze()
    beat = client.send("keep", lease=lease, ms=60000)
    asked = [client.send(op, key="/t/a", ms=ms) for op, ms in (("read", 1500), ("put", 1000), ("erase", 1000))]
    answers = [client.answer(number) for number in asked]
    assert [answer["fault"] for answer in answers] == ["unreachable"] * 3, answers
    assert "no answer from" in answers[0]["text"], answers
    # Those behind the first one were not sent when their time was over.
    assert [answer["perhaps"] for answer in answers] == [True, False, False], answers
    assert all(1 <= answer["took"] < Programs.patience(30) for answer in answers), answers
    etcd.thaw()
    assert client.answer(beat)["ttl"] == 60
    assert client.do("read", key="/t/a")["pairs"][0]["value"] == "0"
    etcd.put("/t/a", "1")
    wait_until("what happens then", lambda: any(change.get("value") == "1" for change in client.changes(watch)))
    etcd.freeze()
    client.send("read", key="/t/a", ms=300000)
    time.sleep(0.2)
    client.end()
    etcd.thaw()


@case()
def etcd_leases_end(lab):
    """Two seconds without a keep-alive, and the key is gone; one that is kept alive stays."""
    etcd = Etcd(lab).start()
    client = Client(lab, settings_of(etcd))
    watch = client.watch("/t/", 1)
    begun = time.monotonic()
    kept, left = client.do("grant", ttl=10)["lease"], client.do("grant", ttl=2)["lease"]
    client.do("put", key="/t/kept", lease=kept)
    client.do("put", key="/t/left", lease=left)

    def gone():
        client.do("keep", lease=kept)
        return any(change.get("erased") for change in client.changes(watch))
    wait_until("the end of a lease", gone, 60)
    while time.monotonic() - begun < 12:
        client.do("keep", lease=kept)
        time.sleep(0.1)
    assert set(etcd.keys("/t/")) == {"/t/kept"}
    assert client.do("keep", lease=left)["ttl"] == 0
    client.end()


def with_users(lab, *arguments):
    """An etcd that asks who one is: root, and 'tally' for what begins with /tally/."""
    etcd = Etcd(lab, *arguments).start()
    for user, role in (("root", "root"), ("tally", "box")):
        etcd.post("/v3/auth/user/add", {"name": user, "password": f"{user}'s"})
        etcd.post("/v3/auth/role/add", {"name": role})
        etcd.post("/v3/auth/user/grant", {"user": user, "role": role})
    etcd.post("/v3/auth/role/grant", {"name": "box", "perm": {"permType": "READWRITE", "key": b64("/tally/"), "range_end": b64("/tally0")}})
    etcd.post("/v3/auth/enable", {})
    password = lab.directory + "/password"
    with open(password, "w", encoding="ascii") as file:
        file.write("tally's\n")
    return etcd, password


@case()
def etcd_with_users_and_passwords(lab):
    """Without one, with a wrong one, of another key: refused, and why. Tokens that etcd does not know any more are renewed."""
    etcd, password = with_users(lab, "--auth-token-ttl", "2")
    nobody = Client(lab, settings_of(etcd), "nobody")
    refused = nobody.ask("read", key="/tally/a")
    assert refused["fault"] == "refused" and refused["text"] == "etcd says: etcdserver: user name is empty", refused
    nobody.end()
    wrong = lab.directory + "/wrong"
    with open(wrong, "w", encoding="ascii") as file:
        file.write("guess")
    impostor = Client(lab, settings_of(etcd, user="tally", password_file=wrong), "impostor")
    refused = impostor.ask("read", key="/tally/a")
    assert refused["fault"] == "refused" and "authentication failed" in refused["text"], refused
    # The right one, put there while it runs, is read.
    with open(wrong, "w", encoding="ascii") as file:
        file.write("tally's")
    impostor.do("read", key="/tally/a")
    impostor.end()
    client = Client(lab, settings_of(etcd, user="tally", password_file=password))
    client.do("put", key="/tally/a", value="1")
    refused = client.ask("put", key="/other", value="1")
    assert refused["fault"] == "refused" and "permission denied" in refused["text"], refused
    watch = client.watch("/tally/", 1)
    wait_until("the first change", lambda: client.changes(watch))
    time.sleep(3)  # longer than a token lives that nobody shows
    client.do("put", key="/tally/a", value="2")
    etcd.kill()
    etcd.start()  # it remembers no token
    wait_until("a token of the new life", lambda: "fault" not in client.ask("put", key="/tally/a", value="3"), 60)
    wait_until("a watch of the new life", lambda: any(change["value"] == "3" for change in client.changes(watch)), 60)
    client.end()
    # A password where nobody asks for one does no harm.
    plain = Etcd(lab, name="plain").start()
    client = Client(lab, settings_of(plain, user="tally", password_file=password), "unasked")
    client.do("put", key="/tally/a", value="1")
    client.end()


@case()
def etcd_over_tls(lab):
    """Both sides show certificates. One of another authority or name, or none, is refused, and the sentence says which file."""
    tls = Tls(lab)
    etcd = Etcd(lab, tls=tls).start()
    mine = {"ca": tls.path("ca"), "certificate": tls.path("client"), "key": tls.path("client", "key")}
    client = Client(lab, settings_of(etcd, **mine))
    watch = client.watch("/t/", 1)
    client.do("put", key="/t/a", value="1")
    lease = client.do("grant", ttl=60)["lease"]
    assert client.do("keep", lease=lease)["ttl"] == 60
    wait_until("a change", lambda: client.changes(watch))
    client.end()
    elsewhere = Etcd(lab, name="elsewhere", tls=tls, certificate="elsewhere").start(ready=False)
    wait_until("its port", lambda: "serving client requests" in elsewhere.program.complained(), 60)
    none = lab.directory + "/none.crt"
    for name, server, settings, text in (
            ("stranger", etcd, {**mine, "ca": tls.path("stranger")},
             f"the certificate of {etcd.endpoint} is of nobody that {tls.path('stranger')} vouches for, or of another name"),
            ("system", etcd, {**mine, "ca": ""},
             f"the certificate of {etcd.endpoint} is of nobody that this system vouches for, or of another name"),
            ("name", elsewhere, mine,
             f"the certificate of {elsewhere.endpoint} is of nobody that {tls.path('ca')} vouches for, or of another name"),
            ("absent", etcd, {**mine, "certificate": none},
             f"the client's certificate and key, {none} and {mine['key']}, cannot be used"),
            ("authority", etcd, {**mine, "ca": none}, f"the certificates of {none} cannot be read")):
        client = Client(lab, settings_of(server, **settings), name)
        refused = client.ask("read", key="/t/a", ms=5000)
        assert refused["fault"] == "unreachable" and refused["text"] == text, (name, refused)
        client.end()
    for name, settings in (("naked", {"ca": mine["ca"]}),
                           ("intruder", {**mine, "certificate": tls.path("intruder"), "key": tls.path("intruder", "key")})):
        client = Client(lab, settings_of(etcd, **settings), name)
        refused = client.ask("read", key="/t/a", ms=5000)
        assert refused["fault"] == "unreachable", (name, refused)
        client.end()


@case()
def etcd_of_three_servers_loses_one(lab):
    """The one that is asked dies: the others are, nothing is lost; with two dead it says that nobody decides; a dead first one costs nothing."""
    servers = cluster_of(lab, 3)
    dead = f"http://127.0.0.1:{free_ports(1)[0]}"
    client = Client(lab, settings_of(dead, *servers))
    watch = client.watch("/t/", 1)
    lease = client.do("grant", ttl=60)["lease"]
    client.do("put", key="/t/a", value="0", lease=lease)
    servers[0].kill()
    # Whoever led may have been the one: the others elect another.
    wait_until("an answer of the others", lambda: "fault" not in client.ask("put", key="/t/a", value="1", lease=lease), 60)
    assert client.do("keep", lease=lease, ms=20000)["ttl"] == 60
    wait_until("the change", lambda: any(change["value"] == "1" for change in client.changes(watch)), 60)
    servers[1].kill()
    refused = client.ask("put", key="/t/a", value="2", ms=4000)
    assert refused["fault"] == "unreachable", refused
    servers[1].start(ready=False)
    wait_until("an answer of two", lambda: "fault" not in client.ask("put", key="/t/a", value="3"), 60)
    wait_until("the last change", lambda: any(change["value"] == "3" for change in client.changes(watch)), 60)
    changes = client.changes(watch)
    assert [change["modified"] for change in changes] == sorted({change["modified"] for change in changes}), changes
    client.end()


@case()
def etcd_of_two_servers_one_stands_still(lab):
    """Of three, the asked one is stopped: half of the time goes to another one, and the watch moves there."""
    servers = cluster_of(lab, 3)
    client = Client(lab, settings_of(*servers))
    watch = client.watch("/t/", 1)
    client.do("put", key="/t/a", value="0")
    wait_until("the first change", lambda: client.changes(watch))
    servers[0].freeze()
    wait_until("an answer of the others", lambda: "fault" not in client.ask("put", key="/t/a", value="1", ms=4000), 60)
    assert "fault" not in client.ask("read", key="/t/a", ms=10000)
    wait_until("the change", lambda: any(change["value"] == "1" for change in client.changes(watch)), 90)
    servers[0].thaw()
    client.end()


class Something(http.server.BaseHTTPRequestHandler):
    """A web server that is no etcd; says what its path is told to."""
    bodies = {}

    def do_POST(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers["Content-Length"]))
        status, body = self.server.says
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


@case()
def etcd_is_something_else(lab):
    """A web server, nonsense, half an answer: named, and nothing breaks."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Something)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    client = Client(lab, settings_of(endpoint))
    for says, text in (((404, b"<html>"), "what answers there is no etcd: HTTP status 404"),
                       ((500, b""), "what answers there is no etcd: HTTP status 500"),
                       ((200, b"<html>"), f"the answer of {endpoint} is not understood"),
                       ((200, b'{"header":{"revision":7}}'), f"the answer of {endpoint} is not understood"),
                       ((200, b'{"header":{"revision":"7"},"kvs":[{"key":"%%"}]}'), f"the answer of {endpoint} is not understood"),
                       ((503, b'{"message":"etcdserver: no leader","code":14}'), "etcd says: etcdserver: no leader")):
        server.says = says
        refused = client.ask("read", key="/t/a", ms=3000)
        assert refused["fault"] == "unreachable" and refused["text"] == text, (says, refused)
    client.watch("/t/", 1)
    time.sleep(1)
    client.end()
    server.shutdown()


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


@case()
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


@case()
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


@case()
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


@case()
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


@case()
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


@case()
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
    watch = Stopwatch()
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


@case()
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
    assert counters.call(box.control, "health.get")["state"] == "good"
    etcd.start()
    box.wait_fleet("to be a member again", lambda fleet: fleet["standing"] == "member" and ids(fleet) == ["a"])
    # Nor does it keep the box from ending.
    etcd.freeze()
    begun = time.monotonic()
    box.stop()
    assert time.monotonic() - begun < Programs.patience(60)
    etcd.thaw()


@case()
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
