"""HTTP of a running box: what it answers, what a crowd can do to it, and what Prometheus makes of it."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import stat
import subprocess
import time
import urllib.parse

from box import Box, Job, Options, cpus_of_ours, run_box
from cases_control import at_work
from counters import call
from http_client import Connection, Stream, free_port, get, plain
from lab import Skipped, case
from programs import Programs, Stopwatch, wait_until
from workers import UNTIL_TOLD, finish, go_on, start_job

ROOT = pathlib.Path(__file__).resolve().parents[2]
RULES = ROOT / "conf/tally-alerts.yaml"
DASHBOARD = ROOT / "conf/tally-grafana.json"
# What goes on while nobody works.
MOVING = {"silent_ns", "seen_ns_ago", "contributed_ns_ago", "turns", "sleeps", "cycles", "busy", "busy_cycles", "cycles_per_frame", "frames_in", "bursts", "not_ours"}


def http_box(lab, jobs, **options):
    """A box with HTTP over TCP; its port."""
    port = free_port()
    control = f"access: owner, http: \"127.0.0.1:{port}\""
    return run_box(lab, jobs, control=control, **options), port


def resting(value):
    """Without what goes on while nobody works."""
    if isinstance(value, dict):
        return {key: resting(one) for key, one in value.items() if key not in MOVING}
    return [resting(one) for one in value] if isinstance(value, list) else value


def promtool(*words, text=None):
    program = shutil.which("promtool")
    if not program:
        raise Skipped("promtool is not installed (package prometheus)")
    return subprocess.run([program, *map(str, words)], input=text, text=True, capture_output=True, timeout=120, check=False)


@case("address")
def http_answers_what_the_control_interface_answers(lab):
    """Each path is the result of its method, and the box is all of them of one moment."""
    job = Job("resnet", workers=2)
    box, port = http_box(lab, [job, Job("bert", workers=1)])
    finish(start_job(box, job, "--sizes 20000 --iterations 20"))
    wait_until("the end of the job", lambda: call(box.control, "job.list")["jobs"][0]["phase"] == "ended")
    wait_until("the ports to be left", lambda: all(p["link"] == "down" for p in call(box.control, "port.list")["ports"]))
    methods = {"jobs": "job.list", "ports": "port.list", "cores": "core.list", "drops": "drop.list", "slots": "slot.show",
               "health": "health.get", "config": "config.show"}

    def same(path, method):
        return resting(get(port, f"/api/v1/{path}").json) == resting(call(box.control, method))

    for path, method in methods.items():
        wait_until(f"/api/v1/{path} to be {method}", lambda p=path, m=method: same(p, m))
    whole = get(port, "/api/v1/box").json
    assert whole["instance"] == call(box.control, "api.version")["instance"], whole
    assert abs(whole["time_ms"] * 1e-3 - time.time()) < 300, whole["time_ms"]
    for path in set(methods) - {"config"}:
        assert resting(whole[path]) == resting(get(port, f"/api/v1/{path}").json), path
    metrics = get(port, "/metrics").text
    results = call(box.control, "job.list")["jobs"][0]["results"]
    assert f'tally_job_results_total{{job_name="resnet"}} {results}\n' in metrics, (results, metrics)
    assert "s3cret" not in metrics
    assert get(port, "/").headers["Content-Type"].startswith("text/html")
    box.stop()


@case("address")
def http_streams_tell_what_happens_and_end_with_the_daemon(lab):
    """hello, the box, events without a gap for who comes back; /readyz and health.get say that it ends; then an end."""
    job = Job("resnet", workers=2)
    box, port = http_box(lab, [job])
    stream = Stream(port)
    assert stream.next()[0] == "hello"
    first = stream.next()
    assert first[0] == "box" and first[2]["jobs"]["jobs"][0]["name"] == "resnet", first
    workers = at_work(box, job)
    frames = stream.until(lambda kind, _, data: kind == "event" and data["event"] == "job.running")
    seen = [frame for frame in frames if frame[0] == "event"]
    again = Stream(port, {"Last-Event-ID": seen[0][1]})
    replayed = again.until(lambda kind, _, data: kind == "event" and data["event"] == "job.running")
    numbers = [frame[2]["number"] for frame in replayed if frame[0] == "event"]
    assert numbers == list(range(seen[0][2]["number"] + 1, seen[-1][2]["number"] + 1)), numbers
    boxes = again.until(lambda kind, _, data: kind == "box" and data["jobs"]["jobs"][0]["results"] > 0)
    assert boxes[-1][2]["snapshot"] > first[2]["snapshot"]
    assert call(box.control, "health.get")["ending"] is False and get(port, "/readyz").status == 200
    box.daemon.signal(signal.SIGTERM)
    wait_until("health to say that it ends", lambda: call(box.control, "health.get")["ending"] is True)
    wait_until("/readyz to say so", lambda: "shutting down" in get(port, "/readyz").text)
    assert get(port, "/readyz").status == 503 and get(port, "/healthz").status == 200
    go_on(workers)
    for one in (stream, again):
        assert one.until(lambda kind, _, data: False)[-1] is None, "the stream breaks off"
    finish(workers)
    assert box.daemon.wait() == 0


@case("address", waits=True)
def http_serves_beside_a_crowd(lab):
    """40 streams, 200 idle connections, 20 half-sent requests and readers that do not read: /metrics answers at once."""
    job = Job("resnet", workers=2)
    box, port = http_box(lab, [job])
    workers = at_work(box, job)
    streams = [Stream(port) for _ in range(40)]
    crowd = [plain(port) for _ in range(220)]
    for one in crowd[:20]:
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
    sleepers = [plain(port) for _ in range(10)]
    for one in sleepers:
        one.sendall(b"GET /api/v1/box HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
    connection = Connection(port)
    took = []
    for _ in range(30):
        watch = Stopwatch(box.daemon)
        connection.request("GET", "/metrics")
        assert b"tally_http_streams 40\n" in connection.getresponse().read()
        took.append(watch.seconds())
    assert sorted(took)[15] < Programs.patience(2), took
    for stream in streams:
        assert stream.until(lambda kind, _, data: kind == "box")[-1][0] == "box"
    # The idle ones are closed in the end, however long that takes on this machine.
    for one in crowd:
        one.settimeout(Programs.patience(60))
        assert one.recv(1) == b"", "a connection that says nothing stays open"
    # A text of metrics is made once for each snapshot, so it may be older than the last that was closed.
    closed = re.compile(r'tally_http_refused_total\{reason="idle"\} (\d+)')
    wait_until("220 closed as idle", lambda: int(closed.search(get(port, "/metrics").text)[1]) >= 220)
    for one in crowd + sleepers + streams:
        one.close()
    go_on(workers)
    finish(workers)
    box.stop()


@case("address")
def http_refuses_by_name(lab):
    """A foreign Host, another method, a body, a path that is not there: each with its status and why."""
    box, port = http_box(lab, [Job("resnet", workers=1)])
    answer = get(port, "/api/v1/box", headers={"Host": "evil.example"})
    assert answer.status == 403 and "resnet" not in answer.text and "localhost" in answer.text, answer.text
    assert get(port, "/healthz", headers={"Host": f"127.0.0.1:{port}"}).status == 200
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        answer = get(port, "/api/v1/box", method)
        assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD", (method, answer.text)
    assert get(port, "/metrics", "HEAD").text == ""
    answer = get(port, "/api/v2/box")
    assert answer.status == 404 and "/api/v1/box" in answer.text, answer.text
    with plain(port) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000000\r\n\r\n")
        assert b" 413 " in one.recv(4096)
    for header, value in (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store")):
        assert get(port, "/").headers[header] == value
    assert "default-src 'none'" in get(port, "/").headers["Content-Security-Policy"]
    # A text of metrics is made once for each snapshot, so it may be older than the last refusal.
    for reason, count in (("host", 1), ("method", 4), ("body", 1)):
        line = f'tally_http_refused_total{{reason="{reason}"}} {count}\n'
        wait_until(line, lambda line=line: line in get(port, "/metrics").text)
    box.stop()


class Poor(Box):
    """Runs with few descriptors."""
    limit = 0

    def run_program(self, name, command, environment):
        return super().run_program(name, ["prlimit", f"--nofile={self.limit}", *command], environment)


@case(waits=True)
def http_without_descriptors_serves_later(lab):
    """A crowd takes the last descriptors: who comes then is closed and does not hang, the box works, later all are served."""
    job = Job("resnet", workers=2)
    port = free_port()
    box = Poor(lab, [job], Options(control=f"access: owner, http: \"127.0.0.1:{port}\""))
    box.limit = 1024
    box.start()
    workers = at_work(box, job)
    used = len(os.listdir(f"/proc/{box.daemon.pid}/fd"))
    resource.prlimit(box.daemon.pid, resource.RLIMIT_NOFILE, (used + 20, 1024))
    crowd = [plain(port) for _ in range(100)]
    before = cpu_seconds(box.daemon.pid)  # none is left: those who have one say nothing, and have 10 s for it
    time.sleep(1)
    assert cpu_seconds(box.daemon.pid) - before < 0.5, "it spins"
    closed = 0
    for one in reversed(crowd):
        one.settimeout(Programs.patience(60))
        try:
            closed += one.recv(4096) in (b"",) or one.recv(4096) == b""
        except ConnectionResetError:
            closed += 1
    assert closed == 100, "each is closed: at once, or when it has said nothing for long"
    for one in crowd:
        one.close()
    wait_until("an answer", lambda: get(port, "/healthz").status == 200)
    text = get(port, "/metrics").text
    assert int(re.search(r'tally_http_refused_total\{reason="descriptors"\} (\d+)', text)[1]) > 50, text
    go_on(workers)
    finish(workers)
    box.stop()


def cpu_seconds(pid):
    """Of the HTTP thread."""
    words = http_thread(pid).joinpath("stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def http_thread(pid):
    """Its folder in /proc."""
    return next(task for task in pathlib.Path(f"/proc/{pid}/task").iterdir()
                if (task / "comm").read_text(encoding="utf-8") == "tally-http\n")


@case()
def http_runs_beside_the_data_cores(lab):
    """In a thread of its own name, on no CPU of a data core; asleep while nobody asks."""
    box, port = http_box(lab, [Job("resnet", workers=1)])
    assert get(port, "/metrics").status == 200
    status = (http_thread(box.daemon.pid) / "status").read_text(encoding="ascii")
    allowed = re.search(r"Cpus_allowed_list:\s*(\S+)", status)[1]
    cpus = {cpu for part in allowed.split(",") for cpu in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)}
    ours = cpus_of_ours()
    if len(ours) > 1:
        assert ours[-1] not in cpus and cpus, allowed
    before = cpu_seconds(box.daemon.pid)
    time.sleep(1)
    assert cpu_seconds(box.daemon.pid) - before < 0.2, "it does not sleep"
    box.stop()


@case("address")
def http_on_a_unix_socket(lab):
    """With the mode of control.access; its file goes with the daemon, and a second daemon is told who has it."""
    path = os.path.join(lab.directory, "http.sock")
    box = run_box(lab, [Job("resnet", workers=1)], control=f"access: owner, http: \"unix:{path}\"")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert get(path, "/api/v1/jobs").json["jobs"][0]["name"] == "resnet"
    with plain(path) as one:
        one.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert one.recv(4096).startswith(b"HTTP/1."), "without a Host"
    other = Box(lab, [Job("other", workers=1)], Options(control=f"access: owner, http: \"unix:{path}\""))
    other.config = pathlib.Path(lab.directory, "other.yaml")
    other.config.write_text(other.yaml().replace("control.sock", "other.sock").replace("memif.sock", "other-memif.sock"))
    other.rename(f"other{os.getpid()}")
    daemon = other.launch()
    assert daemon.wait() == 1 and "the socket of HTTP" in daemon.complained() and "in use by" in daemon.complained()
    box.stop()
    assert not os.path.exists(path)


@case("address")
def http_that_cannot_be_served_ends_the_start(lab):
    """A port that is taken, and an address that is not this machine's, with what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        box = Box(lab, [Job("resnet", workers=1)], Options(control=f"http: \"127.0.0.1:{port}\""))
        daemon = box.launch()
        assert daemon.wait() == 1 and f"HTTP cannot be served at 127.0.0.1:{port}" in daemon.complained()
        assert "another program listens there" in daemon.complained()
    box.config.write_text(box.yaml().replace(f"127.0.0.1:{port}", "192.0.2.1:9464"))
    check = subprocess.run([Programs.tallyd, "--check", "--here", "--config", box.config], capture_output=True, text=True, check=False)
    assert check.returncode == 1 and "no interface of this machine has that address" in check.stderr, check.stderr
    assert re.search(r"box.yaml:\d+:\d+: error: control.http", check.stderr), check.stderr


@case("address")
def http_takes_a_restart(lab):
    """A reload says so; after `tallyctl restart` it is served at the new address."""
    box, port = http_box(lab, [Job("resnet", workers=1)])
    other = free_port()
    box.config.write_text(box.yaml().replace(str(port), str(other)))
    done = call(box.control, "config.reload")
    assert any("control.http" in text for text in done["restart"]), done
    assert get(port, "/metrics").text.count("tally_config_last_reload_successful 1\n") == 1
    box.config.write_text("nonsense: 1\n")
    box.daemon.signal(signal.SIGHUP)
    wait_until("the failed reload to be seen", lambda: "tally_config_last_reload_successful 0\n" in get(port, "/metrics").text)
    box.config.write_text(box.yaml().replace(str(port), str(other)))
    call(box.control, "daemon.restart")

    def served():
        try:
            return get(other, "/readyz").status == 200
        except OSError:
            return False
    wait_until("the new address", served, 60)
    box.stop()


@case()
def metrics_rules_and_their_tests_please_promtool(lab):
    """check metrics of a box at work, check rules, test rules."""
    job = Job("resnet", workers=2)
    box, port = http_box(lab, [job], impair="duplicate: 5%")
    workers = at_work(box, job)
    wait_until("drops of the job", lambda: "tally_job_drops_total{" in get(port, "/metrics").text)
    done = promtool("check", "metrics", text=get(port, "/metrics").text)
    assert done.returncode == 0 and not done.stdout and not done.stderr, done
    for words in (("check", "rules", RULES), ("test", "rules", ROOT / "tests/prometheus/alerts_test.yaml")):
        done = promtool(*words)
        assert done.returncode == 0, done
    tests = (ROOT / "tests/prometheus/alerts_test.yaml").read_text(encoding="utf-8")
    for name in re.findall(r"alert: (\w+)", RULES.read_text(encoding="utf-8")):
        assert f"name: {name} fires\n" in tests and f"name: {name} is quiet\n" in tests, f"{name} has no test"
    go_on(workers)
    finish(workers)
    box.stop()


def queries_of_the_dashboard():
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    for panel in panels:
        for target in panel["targets"]:
            yield panel["title"], target["expr"].replace("$__rate_interval", "20s").replace("$instance", ".+")


@case()
def prometheus_and_grafana_find_what_they_ask_for(lab):
    """A real Prometheus scrapes a box at work: every query of the dashboard and every metric of the rules has data, and
    no alert fires."""
    program = shutil.which("prometheus")
    if not program:
        raise Skipped("prometheus is not installed")
    jobs = [Job("resnet", workers=2), Job("shares", workers=2, discipline="shared")]
    box, port = http_box(lab, jobs, shared_slots=64, impair="duplicate: 5%")
    workers = [worker for job in jobs for worker in start_job(box, job, f"--sizes 20000,353 --gap 5 {UNTIL_TOLD}")]
    for worker in workers:
        worker.wait_for("iteration", 2, 60)
    web = free_port()
    config = pathlib.Path(lab.directory, "prometheus.yml")
    config.write_text("global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
                      f"rule_files: ['{RULES}']\nscrape_configs:\n  - job_name: tally\n"
                      f"    static_configs: [{{targets: ['127.0.0.1:{port}']}}]\n", encoding="utf-8")
    watch = lab.run("prometheus", [program, f"--config.file={config}", f"--storage.tsdb.path={lab.directory}/tsdb",
                                   f"--web.listen-address=127.0.0.1:{web}", "--log.level=warn"])

    def asked(query):
        try:
            answer = get(web, "/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        except OSError:
            assert watch.runs(), watch.complained()
            return None
        if answer.status == 503:
            return None  # it has not begun yet
        assert answer.status == 200, (query, answer.text)
        return answer.json["data"]["result"]

    wait_until("Prometheus to have seen the box for a while",
               lambda: (asked("count_over_time(up{job='tally'}[1m])") or [{"value": [0, "0"]}])[0]["value"][1] not in "012", 60)
    names = set(re.findall(r"\btally_\w+|\bup\b", " ".join(re.findall(r"expr: '(.*)'", RULES.read_text(encoding="utf-8")))))
    wanted = [("a rule", name) for name in sorted(names)] + list(queries_of_the_dashboard())
    assert len(wanted) > 40, wanted
    for where, query in wanted:
        wait_until(f"data for {query} of {where}", lambda q=query: asked(q), 30)
    firing = asked("ALERTS{alertstate='firing', alertname!='TallyStraggler'}")
    assert not firing, firing
    rules = json.loads(get(web, "/api/v1/rules").text)["data"]["groups"][0]["rules"]
    assert len(rules) >= 12 and all(rule["health"] == "ok" for rule in rules), rules
    go_on(workers)
    finish(workers[:2])
    finish(workers[2:])
    watch.signal(signal.SIGTERM)
    assert watch.wait() == 0
    box.stop()
