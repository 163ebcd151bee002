"""Sessions of SwitchML's clients: their lines of the configuration, the box, and the program that plays them."""
import dataclasses
import itertools
import json
import pathlib

from box import Box, Options
from lab import Skipped
from programs import Programs

BOX_MAC = "02:7a:11:00:00:fe"  # a rack's, too
BOX_IPV4 = "10.0.0.254"
FIRST_HOST = 11  # of 10.0.0.0/24; member n, of all sessions, has this plus n, and 02:00:00:00:00:(n + 1)


@dataclasses.dataclass
class Session:
    """Stands where box.Job stands; its members bring no ports of their own."""
    name: str
    members: range  # numbers of the members, by rank
    payload: int = 1024
    slots: int = 128
    tsi: str = "packet"
    run: int = 0  # another one begins it anew
    workers = servers = first_port = 0

    def yaml(self, _lab):
        lines = [f"  - name: {self.name}", "    dialect: switchml", f"    payload: {self.payload}",
                 f"    slots: {self.slots}", f"    tsi: {self.tsi}", f"    run: {self.run}", "    members:"]
        lines += [f"      - {{rank: {rank}, mac: '02:00:00:00:00:{number + 1:02x}', ipv4: 10.0.0.{FIRST_HOST + number}, "
                  "port: 48864}" for rank, number in enumerate(self.members)]
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Matrix:
    """All combinations, in the order of tally_switchml_clients."""
    workers: tuple = (2,)
    threads: tuple = (1,)
    payloads: tuple = (1024,)
    losses: tuple = ("0",)
    window: int = 16
    tsi: str = "packet"  # the box's and the clients'

    def sessions(self):
        first, made = 0, []
        for workers, threads, payload, loss in itertools.product(self.workers, self.threads, self.payloads, self.losses):
            made.append(Session(f"s{len(made)}", range(first, first + workers), payload, 2 * self.window * threads, self.tsi))
            first += workers
        return made

    def words(self):
        def listed(values):
            return ",".join(map(str, values))
        return {"--workers": listed(self.workers), "--threads": listed(self.threads), "--payload": listed(self.payloads),
                "--loss": listed(self.losses), "--window": self.window, "--tsi": self.tsi, "--switch": BOX_IPV4, "--switch-mac": BOX_MAC,
                "--memory": 64}


# Small ones leave timers behind that send stale packets (docs/switchml_clients.md says which sizes survive losses).
OPERATIONS = ("float32:20001", "int32:257", "int32:1", "float32:63", "int32:17000")
ALL = Matrix(workers=(2, 3, 8, 16), threads=(1, 4), payloads=(256, 1024), losses=("0", "1%"))


class SessionBox(Box):
    """A box of sessions on memif, with `ports` of them."""

    def __init__(self, lab, matrix, ports=1, **options):
        super().__init__(lab, matrix.sessions(), Options(spare_ports=ports, memory="256MiB", **options))

    def address_yaml(self):
        return f"box: {{ipv4: {BOX_IPV4}/24, mac: '{BOX_MAC}'}}"

    def device(self, port=0):
        return self.device_of(port).removeprefix("dpdk:")


class Players:
    """tally_switchml_clients with the matrix, but for what `arguments` say otherwise."""

    def __init__(self, lab, matrix, devices, *arguments, run=None, operations=()):
        if not Programs.clients:
            raise Skipped("tally_switchml_clients was not built (TALLY_BUILD_BENCH=OFF)")
        self.file = pathlib.Path(lab.directory, f"clients{len(lab.programs)}.json")
        words = [Programs.clients, *arguments, "--json", self.file]
        # The service says where the box is.
        left_out = ("--switch", "--switch-mac") if "--session-service" in arguments else ()
        for option, value in matrix.words().items():
            words += [] if option in arguments or option in left_out else [option, value]
        words += [word for device in devices for word in ("--port", device)]
        if operations:
            words += ["--operations", ",".join(operations)]
        self.program = (run or lab.run)("clients", list(map(str, words)), {})

    def end(self, code=0, seconds=100):
        """Once it has ended with this exit code: its sessions by name as it wrote them."""
        program = self.program
        ended = program.wait(seconds)
        assert ended == code, f"ended with {ended}: {program.complained()}\n{program.said()}"
        sessions = json.loads(self.file.read_text())["sessions"] if self.file.exists() else []
        return {session["name"]: session for session in sessions}


def play(lab, matrix, devices, *arguments, run=None, operations=(), code=0):
    """Players that have ended: their sessions, and the program."""
    players = Players(lab, matrix, devices, *arguments, run=run, operations=operations)
    return players.end(code), players.program


def expect_right(sessions, count):
    """Every sum and every byte of every reply was right, and somebody looked."""
    assert len(sessions) == count, sessions.keys()
    for session in sessions.values():
        assert session["wrong"] == "" and session["malformed"] == 0, session
        assert session["judged"] >= session["answered"] > 0, session
        # A stock client is confused by a result that it did not ask for.
        assert session["repeated_replies"] <= session["resent"], session
        lost = session["lost_requests"] + session["lost_replies"]
        assert lost > 0 and session["resent"] > 0 if session["loss"] else lost == 0, session
