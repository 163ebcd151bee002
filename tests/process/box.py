"""The box: a configuration, and the tallyd that runs on it."""
import dataclasses
import os
import pathlib
import re
import signal

import counters
from programs import Program, Programs, wait_until


@dataclasses.dataclass
class Job:
    """A job of the configuration; its workers have the ports first_port, first_port + 1, ..."""
    name: str = "job"
    workers: int = 2
    token: str = ""
    lease: str = "10s"
    window: int = 256
    elements: int = 0  # 0: the default
    results: str = "unicast"
    discipline: str = "pool"
    priority: int = 100
    weight: int = 1
    servers: int = 0  # external ones; they have the ports behind the workers'
    boxes: tuple = ()  # addresses of all its boxes, the home first
    racks: tuple = ()  # of a job of racks: the workers of each; `workers` is of all together
    rack: object = None  # which of them this box has; None: it is the parent
    parent: str = ""  # then: its address
    admit: str = "off"
    stragglers: str = ""  # the inside of stragglers: {...}
    rates: str = ""  # packet_rate and bad_packet_rate, as the configuration has them
    first_port: int = 0

    def yaml(self, lab):
        size = f"racks: [{', '.join(map(str, self.racks))}]" if self.racks else f"workers: {self.workers}"
        lines = [f"  - name: {self.name}", f"    {size}", f"    lease: {self.lease}",
                 f"    window: {self.window}", f"    results: {self.results}", f"    discipline: {self.discipline}",
                 f"    priority: {self.priority}", f"    quota: {{weight: {self.weight}}}", f"    admit: {self.admit}"]
        if self.servers:
            lines += ["    server: external", f"    servers: {self.servers}"]
        if self.boxes:
            lines.append(f"    boxes: [{', '.join(self.boxes)}]")
        if self.rack is not None:
            lines += [f"    rack: {self.rack}", f"    parent: {self.parent}"]
        if self.stragglers:
            lines.append(f"    stragglers: {{{self.stragglers}}}")
        if self.rates:
            lines += [f"    {rate}" for rate in self.rates.split(", ")]
        if self.elements:
            lines.append(f"    elements: {self.elements}")
        if self.token:
            path = pathlib.Path(lab.directory, f"{self.name}.token")
            path.write_text(self.token + "\n")
            path.chmod(0o600)
            lines.append(f"    token_file: {path}")
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class Options:
    """What differs between boxes."""
    spare_ports: int = 0
    data_cores: int = 1
    memory: str = "128MiB"
    hugepages: str = "off"
    mtu: int = 1500
    device: str = ""  # more arguments of each memif, with a leading comma
    loss: str = ""
    impair: str = ""  # instead: the inside of impair: {...}, but the seed
    shared_slots: int = 0
    ipv6: bool = False
    idle: str = "adaptive"
    execution: str = "fused"
    eal: tuple = ()
    libraries: str = ""  # a folder where the loader looks too
    queues: int = 0  # of each port; 0: one for each data core
    control: str = ""  # the inside of control: {...}, beside the socket


def cpus_of_ours():
    return sorted(os.sched_getaffinity(0))


def run_box(lab, jobs, *arguments, **options):
    """A box with these options (Options), started and ready."""
    return Box(lab, jobs, Options(**options)).start(*arguments)


class Box:
    """One configuration; start() and start() again after kill() use the same one."""

    def __init__(self, lab, jobs, options=Options()):
        self.lab = lab
        self.jobs = jobs
        self.options = options
        self.place_files()
        self.final = os.path.join(lab.directory, "counters.json")
        self.daemon = None
        self.lives = 0
        self.queues = self.options.queues or self.options.data_cores
        next_port = 0
        for job in jobs:
            job.first_port = next_port
            next_port += job.workers + job.servers
        self.ports = next_port + self.options.spare_ports
        self.config.write_text(self.yaml())

    def place_files(self):
        """Where its memif socket, configuration and control socket are."""
        self.socket = os.path.join(self.lab.directory, "memif.sock")
        self.config = pathlib.Path(self.lab.directory, "box.yaml")
        self.control = os.path.join(self.lab.directory, "control.sock")

    def yaml(self):
        o = self.options
        # The last CPUs: interrupts and the rest of the world prefer the first.
        cpus = cpus_of_ours()[-o.data_cores:]
        lines = ["instance: test" + str(os.getpid()), "dataplane:", f"  cores: {cpus}", f"  memory: {o.memory}",
                 "  slots: 16MiB", f"  hugepages: {o.hugepages}", f"  idle: {o.idle}",
                 f"  execution: {o.execution}", f"  shared: {{slots: {o.shared_slots}}}",
                 f"  eal: [{', '.join(repr(word) for word in o.eal)}]",
                 self.control_yaml(), self.address_yaml(), "ports:", *map(self.port_yaml, range(self.ports))]
        return "\n".join(lines + ["jobs:"] + [job.yaml(self.lab) for job in self.jobs]) + "\n"

    def control_yaml(self):
        return f"control: {{socket: {self.control}{self.options.control and ', ' + self.options.control}}}"

    def address_yaml(self):
        return "box: {ipv6: fd00::fe/64}" if self.options.ipv6 else "box: {ipv4: 10.0.0.254/24}"

    def port_yaml(self, port):
        o = self.options
        faults = o.impair or (f"loss: {o.loss}" if o.loss else "")
        impair = f", impair: {{{faults}, seed: {port + 1}}}" if faults else ""
        return (f"  - {{name: p{port}, mtu: {o.mtu}, queues: {self.queues}{impair}, device: "
                f"\"net_memif{port},role=server,id={port},socket={self.socket},socket-abstract=no{o.device}\"}}")

    def rename(self, instance):
        """For the next launch: another instance name."""
        self.config.write_text(re.sub("^instance: .*", f"instance: {instance}", self.config.read_text(), flags=re.M))

    def launch(self, *arguments):
        """Starts tallyd and does not wait for it to be ready."""
        self.lives += 1
        self.daemon = self.run_program(
            f"tallyd{self.lives}", [self.lab.path_of(Programs.tallyd), "--config", str(self.config), "--final-counters",
                                          self.final, *arguments],
            {"LD_LIBRARY_PATH": self.options.libraries} if self.options.libraries else {})
        return self.daemon

    def run_program(self, name, command, environment):
        return self.lab.run(name, command, environment)

    def start(self, *arguments):
        daemon = self.launch(*arguments)
        wait_until(lambda: f"tallyd to be ready; it said:\n{daemon.complained()}",
                   lambda: "ready: " in daemon.complained() or not daemon.runs())
        assert daemon.runs(), f"tallyd ended with {daemon.process.returncode}"
        return self

    def reload(self):
        """Writes the configuration as self.jobs and self.options are now, and SIGHUP."""
        self.config.write_text(self.yaml())
        self.daemon.signal(signal.SIGHUP)

    def kill(self):
        """kill -9, as by the kernel when memory runs out."""
        return self.daemon.kill()

    def stop(self):
        """SIGTERM; all its counters. No packet buffer is lost, whatever the case did."""
        self.daemon.signal(signal.SIGTERM)
        code = self.daemon.wait()
        assert code == 0, f"tallyd ended with {code}"
        counted = self.final_counters()
        assert counted.packet_buffers <= self.kept_by_drivers(), counted.text
        return counted

    def kept_by_drivers(self):
        """Packet buffers that are in use as long as the ports are open."""
        return 0

    def final_counters(self):
        """Of the life that has ended; None if it was killed."""
        return counters.of_file(self.final)

    def counters(self):
        """Of now."""
        return counters.ask(self.control)

    def wait_for_log(self, words, seconds=20):
        wait_until(lambda: f"'{words}' in the log of tallyd", lambda: words in self.daemon.complained(), seconds)

    def address(self):
        """TALLY_SWITCH"""
        return "fd00::fe" if self.options.ipv6 else "10.0.0.254"

    def address_of(self, port):
        """TALLY_ADDRESS of the worker on this port."""
        return f"fd00::{port + 1:x}/64" if self.options.ipv6 else f"10.0.0.{port + 1}/24"

    def device_of(self, port):
        """TALLY_TRANSPORT of the worker on this port."""
        queues = f",queues={self.queues}" if self.queues > 1 else ""
        return (f"dpdk:net_memif{port},role=client,id={port},socket={self.socket},socket-abstract=no{queues}"
                f"{self.options.device}")
