"""The fleet's client of etcd, with a real etcd on loopback."""
import http.server
import threading
import time

import fleet
from etcd import cluster_of, Etcd, free_ports, Tls, with_users
from fleet import Client, settings_of
from lab import case
from programs import Programs, wait_until

MEBIBYTE = 1 << 20


@case(waits=True)
def etcd_and_the_store_in_memory_agree(lab):
    """500 random requests each of three kinds of luck: the store that unit tests use answers as etcd does, and tells the same changes."""
    for seed in (1, 2, 3):
        etcd = Etcd(lab, name=f"etcd{seed}").start()
        done = fleet.Speaker(lab, "comparison", "compare", settings_of(etcd), str(seed), "500")
        assert done.program.wait(120) == 0, done.said()
        assert done.said()[-1]["changes"] > 200, done.said()
        etcd.kill()


@case(waits=True)
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


@case(waits=True)
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


@case(waits=True)
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


@case(waits=True)
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


@case(waits=True)
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


@case(waits=True)
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


@case(waits=True)
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


@case(waits=True)
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
    closes = f"{etcd.endpoint} closes the connection without an answer; "
    for name, settings, text in (
            ("naked", {"ca": mine["ca"]}, closes + "it may ask for a certificate: fleet.cert and fleet.key"),
            ("intruder", {**mine, "certificate": tls.path("intruder"), "key": tls.path("intruder", "key")},
             f"{closes}the CA that it trusts may not vouch for {tls.path('intruder')}")):
        client = Client(lab, settings_of(etcd, **settings), name)
        refused = client.ask("read", key="/t/a", ms=5000)
        assert refused["fault"] == "unreachable" and refused["text"] == text, (name, refused)
        client.end()
    client = Client(lab, settings_of(etcd.endpoint.replace("https", "http")), "plain")
    plain = client.ask("read", key="/t/a", ms=5000)
    assert "if it speaks TLS, write https:// and the CA" in plain["text"] or "HTTP status 400" in plain["text"], plain
    client.end()


@case(waits=True)
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


@case(waits=True)
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


@case(waits=True)
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
