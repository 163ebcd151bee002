"""Keys and values on tally-kv, and through a box: programs written for PS-lite as processes."""
import json
import pathlib
import re
import signal
import socket

from box import Job, run_box
from lab import Skipped, case
from programs import Programs, wait_until
from python_ranks import PYTHON, SCRIPTS, expect_good, package, variables_of, why_not


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class System:
    """A scheduler, servers and workers of one key-value system."""

    def __init__(self, lab, workers, servers, *arguments):
        self.lab = lab
        self.variables = {"DMLC_NUM_WORKER": str(workers), "DMLC_NUM_SERVER": str(servers), "DMLC_PS_ROOT_URI": "127.0.0.1",
                          "DMLC_PS_ROOT_PORT": str(free_port()), "TALLY_KV_TOKEN": "key-value", "TALLY_JOIN_TIMEOUT": "60"}
        self.scheduler = self.server("scheduler")
        self.servers = [self.server("server", "--rank", str(rank), "--json", "--stats", "0", *arguments)
                        for rank in range(servers)]
        self.workers = []

    def server(self, role, *arguments):
        program = pathlib.Path(Programs.build, "host/kv/tally-kv")
        return self.lab.run(role, [str(program), *arguments], {**self.variables, "DMLC_ROLE": role})

    def work(self, what, count, environment=lambda rank: {}):
        program = pathlib.Path(Programs.build, "tests/process/tally_kv_worker")
        self.workers = [self.lab.run(f"kv{rank}", [str(program), what],
                                     {**self.variables, "DMLC_ROLE": "worker", "DMLC_RANK": str(rank), **environment(rank)})
                        for rank in range(count)]

    def finish(self):
        """All end well; what the servers counted."""
        for program in [*self.workers, *self.servers, self.scheduler]:
            code = program.wait()
            assert code == 0, f"{program.name} ended with {code}: {program.complained()}"
        for worker in self.workers:
            assert worker.said().endswith("good\n"), worker.said()
        return [json.loads(server.said().splitlines()[-1]) for server in self.servers]


@case("release", "address", waits=True)
def kv_program_of_ps_lite(lab):
    """Three workers, two servers of two shards: what was pushed fifty times is fifty times the value."""
    system = System(lab, 3, 2, "--shards", "2")
    system.work("app", 3)
    counted = system.finish()
    assert sum(one["rows"] for one in counted) == 30_000, counted
    assert sum(one["keys"] for one in counted) == 30_000 * 51, counted
    assert all(one["pushes"] == 150 and one["merged"] == 150 and one["refused"] == one["malformed"] == 0 for one in counted), counted


@case(waits=True)
def kv_synchronous_program_of_ps_lite(lab):
    """Workers push the same keys; the servers apply their sum, once."""
    system = System(lab, 2, 1, "--sync")
    system.work("hold", 2)
    for worker in system.workers:
        wait_until("a push", lambda one=worker: "pushed" in one.said())
        worker.write_line()
    counted = system.finish()[0]
    assert counted["pushes"] == 2 and counted["merged"] == 4 and counted["rows"] == 2, counted


@case("address", waits=True)
def kv_server_killed(lab):
    """The worker is told which keys are gone; the others are there."""
    system = System(lab, 1, 2)
    system.work("hold", 1)
    worker = system.workers[0]
    wait_until("a push", lambda: "pushed" in worker.said())
    system.servers[1].kill()
    worker.write_line()
    wait_until("the failure", lambda: "failed: " in worker.said())
    said = worker.said()
    assert "server 1 at 127.0.0.1:" in said and "keys 9223372036854775807..18446744073709551615, is lost" in said, said
    del system.servers[1]
    system.finish()
    for program in (system.scheduler, *system.servers):
        assert "server 1 at 127.0.0.1 is lost" in program.complained(), program.complained()


@case(waits=True)
def kv_scheduler_killed(lab):
    """Nobody waits for it: servers say so and end with 1, and so do workers when they are through."""
    system = System(lab, 1, 1)
    system.work("hold", 1)
    worker = system.workers[0]
    wait_until("a push", lambda: "pushed" in worker.said())
    system.scheduler.kill()
    assert system.servers[0].wait() == 1
    assert "a server; it asks the scheduler at 127.0.0.1:" in system.servers[0].complained()
    assert "and waits 60 s at most" in system.servers[0].complained()
    assert re.search(r"the scheduler at 127.0.0.1:\d+ is lost: ", system.servers[0].complained()), system.servers[0].complained()
    worker.write_line()
    assert worker.wait() == 1
    assert "is lost" in worker.complained() + worker.said()


@case(waits=True)
def kv_stopped_by_signal(lab):
    """SIGTERM: a last line, exit code 0. And one that is told nothing says what it needs."""
    system = System(lab, 1, 1)
    system.work("hold", 1)
    wait_until("a push", lambda: "pushed" in system.workers[0].said())
    system.servers[0].signal(signal.SIGTERM)
    assert system.servers[0].wait() == 0
    assert json.loads(system.servers[0].said())["rows"] == 2
    for options, missing, words in (([], "DMLC_NUM_WORKER", "DMLC_NUM_WORKER is not set"),
                                    ([], "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_URI is not set"),
                                    (["--memory", "1000KiB", "--shards", "2"], "", "--memory: '1000KiB' is too little: 2 shards")):
        given = {name: value for name, value in system.variables.items() if name != missing}
        program = lab.run("nothing", [str(pathlib.Path(Programs.build, "host/kv/tally-kv")), "--role", "server", *options], given)
        assert program.wait() == 2 and words in program.complained(), program.complained()


def way_to(box, job, rank):
    return {"TALLY_JOB": job.name, "TALLY_SWITCH": box.address(), "TALLY_ADDRESS": box.address_of(job.first_port + rank),
            "TALLY_TOKEN": job.token, "TALLY_MTU": str(box.options.mtu), "TALLY_TRANSPORT": box.device_of(job.first_port + rank)}


@case("address")
def kv_table_with_hot_rows_in_a_box(lab):
    """Two workers push rounds of a table: its hot rows go through the box, and all rows are as a map has them."""
    job = Job("table", workers=2)
    box = run_box(lab, [job])
    system = System(lab, 2, 2)
    system.work("table", 2, lambda rank: way_to(box, job, rank))
    counted = system.finish()
    assert all(one["tables"] == 1 and one["table_rounds"] == 60 and one["rows"] == 0 for one in counted), counted
    for worker in system.workers:
        hot, pairs, keys, sums = (int(word) for word in re.findall(r"\d+", worker.said()))
        assert 1000 < hot < pairs and keys == 64 and sums == 60, worker.said()
    box.stop()


@case("address")
def kv_asynchronous_table_with_hot_rows_in_a_box(lab):
    """Two workers push to an asynchronous table when they like: its hot rows go through the box, which has nothing else
    meanwhile, so that ten rounds of another table are cold, and PushPulls afterwards; and in the end all rows have what both pushed."""
    job = Job("late", workers=2)
    box = run_box(lab, [job])
    system = System(lab, 2, 2)
    system.work("late", 2, lambda rank: way_to(box, job, rank))
    rounds = {one["table_rounds"] for one in system.finish()}
    assert len(rounds) == 1, rounds
    for worker in system.workers:
        hot, pairs, keys, sums = (int(word) for word in re.findall(r"\d+", worker.said())[:4])
        assert 1000 < hot < pairs and keys == 64, worker.said()
        assert rounds == {sums + 10} and 60 <= sums <= 120, (rounds, worker.said())
    box.stop()


@case("address")
def kv_dense_push_pull_through_a_box(lab):
    """PushPull of tensors is a sum of all workers in the box; the servers see none of it, and keys that differ are told to
    all."""
    job = Job("dense", workers=2)
    box = run_box(lab, [job])
    system = System(lab, 2, 1)
    system.work("dense", 2, lambda rank: way_to(box, job, rank))
    counted = system.finish()[0]
    assert counted["pushes"] == counted["rows"] == 0, counted
    box.stop()


def run_python(lab, script, system, environment=lambda rank: {}):
    """Two workers that are python's: a script of tests/python/kv.py."""
    why = why_not()
    if why:
        raise Skipped(why)
    return [lab.run(f"python{rank}", [PYTHON, str(SCRIPTS / "kv.py"), script],
                    {**system.variables, **package(), "DMLC_ROLE": "worker", "DMLC_RANK": str(rank), **environment(rank)}) for rank in range(2)]


@case()
def kv_python_does_and_refuses(lab):
    """All that tally.kv does, on two servers."""
    system = System(lab, 2, 2)
    expect_good(run_python(lab, "everything", system))
    assert sum(one["refused"] for one in system.finish()) == 2


@case(waits=True)
def kv_python_wait_is_interrupted(lab):
    system = System(lab, 2, 1)
    first, other = run_python(lab, "interrupted", system)
    assert first.process.wait(60) == -signal.SIGINT, first.complained()
    other.write_line()
    expect_good([other])


@case(waits=True)
def kv_python_tables(lab):
    """Rounds of two workers, all rows cold and with hot ones; who leaves in the middle is named."""
    for script in ("tables", "left"):
        system = System(lab, 2, 2)
        expect_good(run_python(lab, script, system))
        system.finish()
    job = Job("rows", workers=2)
    box = run_box(lab, [job])
    system = System(lab, 2, 2)
    expect_good(run_python(lab, "tables", system, lambda rank: {**variables_of(box, job, rank), "TALLY_TOKEN": job.token,
                                                                "TALLY_MTU": str(box.options.mtu), "MOST_HOT": "10"}))
    system.finish()
    box.stop()
