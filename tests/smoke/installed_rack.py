"""A box as its users have it: installed on a machine, and started by its unit. Hosts and workers as a rack's."""
import counters
from machine import Machine
from programs import Programs
from rack import Rack
from workers import TestWorker

UNIT = "tallyd.service"
SOCKET = "/run/tally/control.sock"


class Unit:
    """tallyd.service in the place of a Program."""

    def __init__(self, machine):
        self.machine, self.name = machine, UNIT

    def runs(self):
        return self.machine.property(UNIT, "ActiveState") in ("active", "activating", "reloading", "deactivating")

    def complained(self):
        return self.machine.said_by(UNIT)

    @property
    def pid(self):
        """In the machine."""
        return int(self.machine.property(UNIT, "MainPID"))

    def status(self):
        """/proc/PID/status, as words by name."""
        lines = (self.machine.root / f"proc/{self.pid}/status").read_text().splitlines()
        return {name: words.split() for name, _, words in (line.partition(":") for line in lines)}

    def user(self):
        return self.machine.call("ps", "-o", "user=,group=", "-p", str(self.pid)).split()


class InstalledRack(Rack):
    """Its namespace is a machine's."""

    def __init__(self, lab, jobs, machine=None, **options):
        self.machine = machine or Machine(lab)
        super().__init__(lab, jobs, **options)

    def make_namespace(self):
        return self.machine

    def place_files(self):
        self.socket, self.control = "/run/tally/memif.sock", str(self.machine.root / SOCKET[1:])
        self.config = self.machine.root / "etc/tally/tallyd.yaml"

    def control_yaml(self):
        return f"control: {{socket: {SOCKET}{self.options.control and ', ' + self.options.control}}}"

    def launch(self, *arguments):
        assert not arguments, "a unit has its command line"
        self.daemon = Unit(self.machine)
        said = self.machine.call("systemctl", "start", UNIT, seconds=90, fails=True)
        assert self.daemon.runs() and not said, said + self.daemon.complained()
        return self.daemon

    def reload(self):
        self.config.write_text(self.yaml())
        self.machine.call("systemctl", "reload", UNIT)

    def restart(self):
        self.machine.call("systemctl", "restart", UNIT, seconds=90)

    def counters(self):
        return counters.ask(self.control)

    def stop(self):
        """SIGTERM by systemctl."""
        self.machine.call("systemctl", "stop", UNIT, seconds=90)
        assert self.machine.property(UNIT, "Result") == "success", self.daemon.complained()
        assert self.machine.property(UNIT, "NRestarts") == "0", self.daemon.complained()


class Trainee(TestWorker):
    """A rank on the box's machine, over memif, of a user whose only right is to be in group tally."""

    def __init__(self, rack, job, rank, script="", user="trainee"):
        self.job, self.rank, self.name = job, rank, f"{job.name}.{rank}"
        port = job.first_port + rank
        self.program = rack.machine.run(self.name, [
            "setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", Programs.worker,
            *script.split()], {
                "TALLY_JOB": job.name, "TALLY_TOKEN": job.token, "TALLY_RANK": str(rank), "TALLY_WORLD": str(job.workers),
                "TALLY_SWITCH": rack.address(), "TALLY_ADDRESS": rack.address_of(port),
                "TALLY_TRANSPORT": rack.device_of(port), "TALLY_DEBUG": "INFO", "TALLY_JOIN_TIMEOUT": "30"})
        self.pid = self.program.pid


def start_trainees(rack, job, script=""):
    return [Trainee(rack, job, rank, script) for rank in range(job.workers)]
