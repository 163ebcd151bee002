"""A box with kernel ports in a namespace of its own, and hosts in theirs."""
import dataclasses

from box import Box, Options
from host import Host, TapHost
from namespace import Namespace

BOX_MAC = "02:7a:11:00:00:fe"
# Packet buffers of an open port: af_xdp's fill ring and what is on its way through the kernel's other rings; what
# tap has ready for frames.
KEPT = {"af_xdp": 2048 + 64, "tap": 1024}


@dataclasses.dataclass(frozen=True)
class Wires(Options):
    """What differs between racks."""
    driver: object = "af_packet"  # of all ports, or a tuple: one for each
    hosts: int = 0                # ports; 0: as many as the jobs have workers and servers
    mode: str = "inline"
    addresses: bool = True        # of the hosts
    memory: str = "256MiB"


def run_rack(lab, jobs, *arguments, **options):
    """A rack with these options (Wires), its box ready."""
    return Rack(lab, jobs, **options).start(*arguments)


class Rack(Box):
    """Port n is interface pn; behind it is hosts[n] (None with memif and null)."""

    def __init__(self, lab, jobs, **options):
        options = Wires(**options)
        taken = sum(job.workers + job.servers for job in jobs)
        if options.hosts:
            options = dataclasses.replace(options, spare_ports=options.hosts - taken)
        super().__init__(lab, jobs, options)
        self.namespace = self.make_namespace()
        self.hosts = self.make_hosts()

    def make_namespace(self):
        return Namespace(self.lab, "box")

    def make_hosts(self):
        kinds = {"af_packet": Host, "af_xdp": Host, "tap": TapHost}
        return [kinds[self.driver(port)](self, port, self.namespace) if self.driver(port) in kinds else None
                for port in range(self.ports)]

    def driver(self, port):
        drivers = self.options.driver
        return drivers if isinstance(drivers, str) else drivers[port]

    def start(self, *arguments):
        super().start(*arguments)
        for host in self.hosts:
            if isinstance(host, TapHost):
                host.give_addresses()
        return self

    def kept_by_drivers(self):
        return sum(KEPT.get(self.driver(port), 0) for port in range(self.ports))

    def address_for(self, ipv6):
        """The box's, for a host's sockets."""
        return "fd00::fe" if ipv6 else "10.0.0.254"

    def address_yaml(self):
        return (f"box: {{ipv4: 10.0.0.254/24, ipv6: 'fd00::fe/64', mac: '{BOX_MAC}', "
                f"mode: {self.options.mode}}}")

    def port_yaml(self, port):
        driver = self.driver(port)
        if driver == "memif":
            return super().port_yaml(port)
        impair = f", impair: {{{self.options.impair}, seed: {port + 1}}}" if self.options.impair else ""
        interface = ",no-rx=1" if driver == "null" else f",iface=p{port}"
        return (f"  - {{name: p{port}, mtu: {self.options.mtu}, queues: {self.queues}{impair}, "
                f"device: \"net_{driver}{port}{interface}{self.options.device}\"}}")

    def run_program(self, name, command, environment):
        return self.namespace.run(name, command, environment)
