"""tally-switchml, the session service, beside a tallyd: clients that know nothing but its address."""
import os
import pathlib
import signal
import socket

import counters
from box import Box, Options
from lab import case, Skipped
from programs import Programs, wait_until
from sessions import BOX_IPV4, BOX_MAC, FIRST_HOST, Matrix, Players, expect_right, play

RUNS = "switchml."  # the prefix of its jobs
OPERATIONS = ("float32:20001", "int32:257", "int32:1", "int32:17000")
DEADLINE = 60  # of what normally takes a moment


class ServiceBox(Box):
    """A box whose sessions are declared by the service."""

    def __init__(self, lab, ports=1, control="access: owner"):
        super().__init__(lab, [], Options(spare_ports=ports, memory="256MiB", control=control))

    def yaml(self):
        return super().yaml().replace("jobs:\n", "")

    def address_yaml(self):
        return f"box: {{ipv4: {BOX_IPV4}/24, mac: '{BOX_MAC}'}}"

    def device(self, port=0):
        return self.device_of(port).removeprefix("dpdk:")

    def sessions(self):
        """Its jobs by name, but those that are gone."""
        jobs = counters.call(self.control, "job.list")["jobs"]
        return {job["name"]: job for job in jobs if job["phase"] != "gone"}

    def running(self):
        return sorted(name for name, job in self.sessions().items() if job["phase"] == "running")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def connections_to(port):
    """How many TCP connections to this port are open, with those that nobody has accepted yet."""
    lines = pathlib.Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return sum(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)


class Service:
    """tally-switchml with as many ports, started and ready."""

    def __init__(self, lab, box, ports=1, **keys):
        if not Programs.service:
            raise Skipped("tally-switchml was not built (no gRPC here)")
        self.lab, self.box, self.keys = lab, box, keys
        self.config = pathlib.Path(lab.directory, "service.yaml")
        self.ports = [free_port() for _ in range(ports)]
        self.write()
        self.program = None
        self.lives = 0
        self.start()

    def write(self, **more):
        listed = ", ".join(f"{{port: {port}, name: s{number}}}" for number, port in enumerate(self.ports))
        keys = {"tallyd": self.box.control, "listen": f"[{listed}]", "address": "127.0.0.1", **self.keys, **more}
        self.config.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))

    def start(self):
        self.lives += 1
        self.program = self.lab.run(f"service{self.lives}", [Programs.service, "--config", str(self.config)])
        self.waits_for("ready: ")

    def waits_for(self, words, seconds=DEADLINE):
        wait_until(lambda: f"'{words}' in the service's log", lambda: words in self.program.complained(), seconds)

    def target(self, number=0):
        return f"127.0.0.1:{self.ports[number]}"

    def stop(self):
        self.program.signal(signal.SIGTERM)
        assert self.program.wait() == 0, self.program.complained()


class Caller:
    """One client, which makes the calls that it is told to (session_caller.cc)."""

    def __init__(self, lab, target, host=FIRST_HOST):
        self.program = lab.run("caller", [Programs.caller, target])
        self.host = host
        self.asked = 0

    def ask(self, line):
        self.program.process.stdin.write(line.encode() + b"\n")
        self.program.process.stdin.flush()
        self.asked += 1

    def answers(self):
        return self.program.said().splitlines()

    def answer(self, seconds=DEADLINE):
        """To what it asked last."""
        wait_until(lambda: f"answer {self.asked} of {self.answers()}", lambda: len(self.answers()) >= self.asked, seconds)
        return self.answers()[self.asked - 1]

    def call(self, line, seconds=DEADLINE):
        self.ask(line)
        return self.answer(seconds)

    def waits(self):
        return len(self.answers()) < self.asked

    def udp(self, rank, workers, mac=None, ipv4=None, size=3):
        """The line of UdpSession, of the addresses that the players of this host have."""
        mac = mac if mac is not None else 0x020000000000 + self.host - FIRST_HOST + 1
        ipv4 = ipv4 if ipv4 is not None else 0x0A000000 + self.host
        return f"udp {rank} {workers} {mac} {ipv4} {size}"


def callers_of(lab, target, workers, first=FIRST_HOST):
    return [Caller(lab, target, first + rank) for rank in range(workers)]


def meet(callers, value=7):
    """All calls but the last Barriers."""
    workers = len(callers)
    for rank, caller in enumerate(callers):
        caller.ask(f"broadcast {rank} {workers} {value}")
    for caller in callers:
        assert caller.answer() == f"OK {value}", caller.answer()
    # Its answer is the box: 48 bits and 32 bits as numbers.
    box = f"OK {int(BOX_MAC.replace(':', ''), 16)} {0x0A0000FE}"
    assert callers[0].call(callers[0].udp(0, workers)) == box, callers[0].answers()
    for caller in callers:
        caller.ask(f"barrier {workers}")
    for rank, caller in enumerate(callers):
        assert caller.answer() == "OK ", caller.answer()
        if rank > 0:
            assert caller.call(caller.udp(rank, workers)) == box, caller.answers()


def last_barriers(callers):
    for caller in callers:
        caller.ask(f"barrier {len(callers)}")
    return [caller.answer() for caller in callers]


def session(lab, target, workers, first=FIRST_HOST):
    """Clients of a session that runs, whose connections are open."""
    callers = callers_of(lab, target, workers, first)
    meet(callers)
    assert last_barriers(callers) == ["OK "] * workers
    return callers


@case(waits=True)
def service_one_session_end_to_end(lab):
    """Three clients that know the service's address alone: every sum and byte is right; when they have gone, so has the
    session, and the next ones begin anew."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, slots=128, idle="4s")
    matrix = Matrix(workers=(3,))
    for life in range(2):
        players = Players(lab, matrix, [box.device()], "--session-service", service.target(), "--timeout", 5, "--seed", life + 1,
                          operations=OPERATIONS)
        expect_right(players.end(), 1)
        assert f"{RUNS}s0" in service.program.complained()
    wait_until("the session to end", lambda: not box.sessions(), DEADLINE)
    # The first by the next clients, or by 4 s of silence where these take longer to start; the second by silence.
    wait_until("both ends", lambda: service.program.complained().count(" is over: ") == 2)
    assert "is over: the connections of all its clients are closed" in service.program.complained()
    service.stop()
    box.stop()


@case(waits=True)
def service_four_sessions_at_once(lab):
    """Four ports, worlds of 2 to 5, all at the same time: nobody gets another's session, every sum is right."""
    box = ServiceBox(lab, ports=4).start()
    service = Service(lab, box, ports=4, slots=128)
    all_players = []
    for number, workers in enumerate((2, 3, 4, 5)):
        host = 11 + 10 * number
        all_players.append(Players(lab, Matrix(workers=(workers,)), [box.device(number)], "--session-service",
                                   service.target(number), "--timeout", 50, "--mac", f"02:00:00:00:01:{host:02x}", "--address",
                                   f"10.0.0.{host}", "--repeat", 20, operations=OPERATIONS))
    for players in all_players:
        expect_right(players.end(), 1)
    log = service.program.complained()
    for number in range(4):
        assert f"session '{RUNS}s{number}' runs: {number + 2} members" in log, log
    service.stop()
    box.stop()


@case(waits=True)
def service_killed_client_releases_the_others(lab):
    """kill -9 of one of three that meet: the others hear it at once, with its rank; those that come then have a session."""
    box = ServiceBox(lab).start()
    service = Service(lab, box)
    callers = callers_of(lab, service.target(), 3)
    for rank, caller in enumerate(callers):
        caller.ask(f"broadcast {rank} 3 9")
    for caller in callers:
        caller.answer()
    callers[1].ask("barrier 3")
    callers[2].program.kill()
    assert callers[1].answer(20).startswith("ABORTED rank 2 (127.0.0.1:"), callers[1].answers()
    assert callers[0].call(callers[0].udp(0, 3)).startswith("ABORTED rank 2"), callers[0].answers()
    for caller in callers[:2]:
        caller.program.kill()
    session(lab, service.target(), 3)
    assert box.running() == [f"{RUNS}s0"]
    service.stop()
    box.stop()


@case(waits=True)
def service_names_who_is_missing(lab):
    """wait: a rank that does not come is named to the others when the time is over."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, wait="2s")
    callers = callers_of(lab, service.target(), 2)
    callers[0].call("broadcast 0 3 1")
    callers[0].call(callers[0].udp(0, 3))
    callers[1].call("broadcast 1 3 0")
    callers[1].ask("barrier 3")
    said = callers[1].answer()
    assert said.startswith("DEADLINE_EXCEEDED rank 2 has not come; rank 0 (127.0.0.1:") and "within 2 s" in said, said
    service.stop()
    box.stop()


@case(waits=True)
def service_refuses_in_words(lab):
    """What a client can get wrong: each has the code and the sentence that says what to do, and disturbs nobody."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, ports=2, allow="[10.0.0.0/26]")

    def told(line, words, number=0):
        caller = Caller(lab, service.target(number))
        caller.call("broadcast 0 1 5")
        said = caller.call(line)
        assert said.startswith(words), said
        caller.program.kill()
        # Its port is free when its end was seen.
        wait_until("a free port", lambda: Caller(lab, service.target(number)).call("broadcast 0 1 5").startswith("OK")
                   and lab.programs[-1].kill(), DEADLINE)

    first = Caller(lab, service.target())
    assert first.call("rdma").startswith("UNIMPLEMENTED this box has no RDMA"), first.answers()
    assert first.call("barrier 2").startswith("FAILED_PRECONDITION"), first.answers()
    assert first.call("broadcast 0 65 1").startswith("INVALID_ARGUMENT num_workers is 65"), first.answers()
    assert first.call("broadcast 0 0 1").startswith("INVALID_ARGUMENT num_workers is 0"), first.answers()
    ranks = callers_of(lab, service.target(), 4)
    for rank in (0, 1):
        ranks[rank].ask(f"broadcast {rank} 2 3")
    for rank in (0, 1):
        assert ranks[rank].answer() == "OK 3"
    assert ranks[2].call("broadcast 1 2 0").startswith("ALREADY_EXISTS rank 1 (127.0.0.1:"), ranks[2].answers()
    assert "num_workers is 3, and the group" in ranks[3].call("broadcast 1 3 0"), ranks[3].answers()
    assert ranks[0].call(ranks[0].udp(0, 2)).startswith("OK"), ranks[0].answers()
    ranks[0].ask("barrier 2")
    assert ranks[1].call("barrier 2") == "OK "
    assert ranks[0].answer() == "OK "
    ranks[0].ask("barrier 2")
    said = ranks[1].call(ranks[1].udp(1, 2, size=1))
    assert said.startswith("INVALID_ARGUMENT") and "256 bytes of values, the ranks before it of 1024" in said, said
    assert ranks[0].answer().startswith("ABORTED rank 1"), ranks[0].answers()
    one = ranks[1]
    told(one.udp(0, 1, mac=int(BOX_MAC.replace(":", ""), 16)), f"INVALID_ARGUMENT {BOX_MAC} is the box's own MAC", 1)
    told(one.udp(0, 1, ipv4=0x0A0000FE), "INVALID_ARGUMENT 10.0.0.254 is the box's own address", 1)
    told(one.udp(0, 1, ipv4=0x0A000064), "PERMISSION_DENIED 10.0.0.100 is in none of the networks", 1)
    told(one.udp(0, 1, size=7), "INVALID_ARGUMENT packet_size is 7", 1)
    for caller in (first, *ranks):
        caller.program.kill()
    session(lab, service.target(), 2)
    other = Caller(lab, service.target(1))
    other.call("broadcast 0 1 1")
    assert other.call(other.udp(0, 1)).startswith("ALREADY_EXISTS MAC 02:00:00:00:00:01, 10.0.0.11 is a member of "), other.answers()
    stranger = Caller(lab, service.target(), host=40)
    stranger.call("broadcast 0 1 1")
    said = stranger.call(stranger.udp(0, 1))
    assert said.startswith("FAILED_PRECONDITION") and "2 of 2 connected" in said, said
    assert box.running() == [f"{RUNS}s0"]
    service.stop()
    box.stop()


@case(waits=True)
def service_no_room(lab):
    """A session that does not fit the box, and one that does not fit beside another: RESOURCE_EXHAUSTED with tallyd's
    numbers, and nothing of it is left."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, slots=16384)
    callers = callers_of(lab, service.target(), 2)
    meet(callers)
    for said in last_barriers(callers):
        assert said.startswith("RESOURCE_EXHAUSTED") and "16384 slots of 1024 bytes" in said and "fit" in said, said
    service.stop()
    service = Service(lab, box, ports=2, slots=6500)
    session(lab, service.target(), 1)
    late = callers_of(lab, service.target(1), 2, 30)
    meet(late)
    for said in last_barriers(late):
        assert said.startswith("RESOURCE_EXHAUSTED") and "take 28.6 MiB of slots; dataplane.slots is 16MiB" in said, said
    wait_until("one session", lambda: list(box.sessions()) == [f"{RUNS}s0"], DEADLINE)
    service.stop()
    box.stop()


def contributions(box, name=f"{RUNS}s0"):
    return box.sessions()[name]["contributions"]


def wait_for_more(box, name=f"{RUNS}s0"):
    before = contributions(box, name)
    wait_until("contributions", lambda: contributions(box, name) > before, DEADLINE)


def wait_for_some(box):
    wait_until("the first contributions", lambda: f"{RUNS}s0" in box.sessions() and contributions(box) > 0, DEADLINE)


LONG = ("--timeout", 50, "--repeat", 1500, "--unjudged")
LATE = ("--timeout", 50, "--repeat", 300, "--unjudged")  # long by who is late


def expect_right_at_last(players):
    for one in players.end().values():
        assert one["wrong"] == "" and one["answered"] > 0, one


@case(waits=True)
def service_killed_beside_a_session_at_work(lab):
    """kill -9 of the service and a start: the session goes on as if nothing was, and is known again."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, slots=128)
    players = Players(lab, Matrix(), [box.device()], "--session-service", service.target(), *LONG, operations=("int32:17000",))
    wait_for_some(box)
    epoch = counters.call(box.control, "job.show", name=f"{RUNS}s0")["epoch"]
    service.program.kill()
    wait_for_more(box)
    service.start()
    service.waits_for(f"session '{RUNS}s0' runs since before this service was started, 2 members")
    wait_for_more(box)
    assert counters.call(box.control, "job.show", name=f"{RUNS}s0")["epoch"] == epoch
    expect_right_at_last(players)
    # Its clients, started again, are its clients.
    sessions, _ = play(lab, Matrix(), [box.device()], "--session-service", service.target(), "--seed", 9, operations=OPERATIONS)
    expect_right(sessions, 1)
    service.stop()
    box.stop()


@case(waits=True)
def service_connections_cut_while_packets_flow(lab):
    """The connections are closed and packets come: the session goes on, and ends when they do not come either."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, slots=128, idle="9s")
    players = Players(lab, Matrix(), [box.device()], "--session-service", service.target(), "--hang-up", *LATE, "--late", "1,1,3",
                      "--late", "0,3,3", "--late", "1,5,3", operations=("int32:17000",))
    service.waits_for("0 are open")
    # For as long as it takes; a session that was taken away would answer nobody.
    expect_right_at_last(players)
    wait_until("its end", lambda: not box.sessions(), DEADLINE)
    service.waits_for("is over: the connections of all its clients are closed, and no packet came for")
    service.stop()
    box.stop()


@case(waits=True)
def service_long_silence_with_open_connections(lab):
    """An evaluation of 9 s, without a packet: longer than anybody else keeps the port from others, and it ends nothing."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, slots=128)
    # Both, so that nobody asks meanwhile.
    players = Players(lab, Matrix(), [box.device()], "--session-service", service.target(), "--timeout", 50, "--patience", 60,
                      "--late", "0,2,9", "--late", "1,2,9", operations=OPERATIONS)
    expect_right(players.end(), 1)
    log = service.program.complained()
    assert "is over" not in log.split("connection of rank")[0], log
    service.stop()
    box.stop()


@case(waits=True)
def service_beside_a_tallyd_killed_and_started_again(lab):
    """kill -9 of tallyd: the session is declared again, as it was, and its clients, started again, sum."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, slots=128)
    callers = session(lab, service.target(), 2)
    box.kill()
    service.waits_for("tallyd is away")
    box.start()
    service.waits_for(f"session '{RUNS}s0' is gone with its tallyd: it is declared again")
    wait_until("the session", lambda: box.running() == [f"{RUNS}s0"], DEADLINE)
    ranks = counters.call(box.control, "job.show", name=f"{RUNS}s0")["ranks"]
    assert [rank["address"] for rank in ranks] == ["10.0.0.11", "10.0.0.12"], ranks
    for caller in callers:
        caller.program.kill()
    sessions, _ = play(lab, Matrix(), [box.device()], "--session-service", service.target(), operations=OPERATIONS)
    expect_right(sessions, 1)
    service.stop()
    box.stop()


@case(waits=True)
def service_beside_a_tallyd_that_ends_in_order(lab):
    """SIGTERM and a start of tallyd, while connections are open: no session is forgotten."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, slots=128)
    session(lab, service.target(), 2)
    box.stop()
    service.waits_for("tallyd is away")
    assert "is over" not in service.program.complained(), service.program.complained()
    box.start()
    wait_until("the session", lambda: box.running() == [f"{RUNS}s0"], DEADLINE)
    service.stop()
    box.stop()


@case(waits=True)
def service_beside_a_tallyd_that_hangs(lab):
    """SIGSTOP of tallyd: calls end at their deadline, those that need no box at once; what it does later is taken back."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, ports=2, slots=128)
    callers = callers_of(lab, service.target(), 2)
    meet(callers)
    box.daemon.signal(signal.SIGSTOP)
    for caller in callers:
        caller.ask("barrier 2")
    other = Caller(lab, service.target(1), 30)
    assert other.call("broadcast 0 1 4") == "OK 4"
    assert all(caller.waits() for caller in callers)
    for caller in callers:
        assert caller.answer(DEADLINE).startswith("UNAVAILABLE tallyd is away: "), caller.answers()
    box.daemon.signal(signal.SIGCONT)
    service.waits_for("tallyd is there")
    wait_until("nothing of it", lambda: not box.sessions(), DEADLINE)
    for caller in callers:
        caller.program.kill()
    session(lab, service.target(), 2)
    service.stop()
    box.stop()


@case(waits=True)
def service_session_removed_at_the_box(lab):
    """tallyctl job remove: the clients learn it with their next call, and may begin anew."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, slots=128)
    callers = session(lab, service.target(), 2)
    callers[0].ask("barrier 2")
    counters.call(box.control, "job.remove", name=f"{RUNS}s0", abort=True)
    assert callers[0].answer() == f"ABORTED session '{RUNS}s0' is over: it was removed at the box", callers[0].answers()
    assert callers[1].call("barrier 2").startswith("ABORTED session"), callers[1].answers()
    meet(callers)
    assert last_barriers(callers) == ["OK "] * 2
    service.stop()
    box.stop()


@case(waits=True)
def service_ends_on_sigterm(lab):
    """Who waits is told, the exit code is good, and the session that runs stays at the box."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, ports=2, slots=128)
    session(lab, service.target(), 1)
    waits = Caller(lab, service.target(1), 30)
    waits.ask("broadcast 1 2 0")
    service.waits_for("2 workers begin to meet")
    service.stop()
    assert waits.answer().startswith("UNAVAILABLE the session service is stopping"), waits.answers()
    assert box.running() == [f"{RUNS}s0"]
    box.stop()


@case(waits=True)
def service_crowd_of_connections(lab):
    """More connections than it may have, which say nothing: members lose theirs never, newcomers get one, and it has no
    more files than that takes."""
    box = ServiceBox(lab).start()
    service = Service(lab, box, ports=2, slots=128, connections=20)
    session(lab, service.target(), 2)
    crowd = Caller(lab, service.target())
    assert crowd.call("connect 200") == "OK 200"
    service.waits_for("more than 20 connections")
    # Who connects while it still accepts them may be closed for one of them before it has said what it is.
    wait_until("the crowd to be gone but 20", lambda: connections_to(service.ports[0]) <= 20, DEADLINE)
    session(lab, service.target(1), 3, 30)
    assert box.running() == [f"{RUNS}s0", f"{RUNS}s1"]
    wait_until("few files", lambda: len(os.listdir(f"/proc/{service.program.pid}/fd")) < 2 * 20 + 64, DEADLINE)
    service.stop()
    box.stop()


@case(waits=True)
def service_says_what_is_wrong_with_its_file(lab):
    """--check, and a start: file, line, column and what to write; a port that is taken; wrong words."""
    box = ServiceBox(lab)
    if not Programs.service:
        raise Skipped("tally-switchml was not built (no gRPC here)")

    def run(*words):
        program = lab.run("service", [Programs.service, *words])
        return program.wait(), program.said(), program.complained()

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        file = pathlib.Path(lab.directory, "service.yaml")
        file.write_text(f"tallyd: {box.control}\naddress: 127.0.0.1\nlisten: [{{port: {port}, name: s0}}]\n")
        assert run("--config", file, "--check") == (0, f"{file}: good: 1 port\n", "")
        code, _, said = run("--config", file)
        assert code == 1 and f"cannot listen on TCP port {port} of 127.0.0.1: Address already in use" in said, said
    for text, words in (("listen: []\n", "nobody could connect"),
                        ("listen:\n  - {port: 1, name: a}\n  - {port: 1, name: b}\n", ":3:12: error: listen[1].port: 1 is listened on"),
                        ("listen: [{port: 1, name: a}]\nallow: [10.0.0.1/24]\n", "write 10.0.0.0/24"),
                        ("listen: [{port: 1, name: a}]\nslot: 4\n", "did you mean slots?"),
                        ("listen: [{port: 1, name: a}]\ntallyd: here\n", "'here' is no absolute path")):
        file.write_text(text)
        code, _, said = run("--config", file, "--check")
        assert code == 1 and words in said, said
    assert run("--check")[0] == 2
    assert run("--version")[1].startswith("tally-switchml ")
