"""A box with kernel ports in a namespace of its own, and hosts in theirs."""
import dataclasses

from box import Box, Options
from host import Host, TapHost
from namespace import Namespace

BOX_MAC = "02:7a:11:00:00:fe"


@dataclasses.dataclass(frozen=True)
class Wires(Options):
    """What differs between racks."""
    driver: object = "af_packet"  # of all ports, or a tuple: one for each
    hosts: int = 0                # ports, if more than the jobs have workers and servers
    impair: str = ""              # of every port, YAML: 'loss: 1%, duplicate: 1%'
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
        options = dataclasses.replace(options, spare_ports=max(0, options.hosts - taken))
        super().__init__(lab, jobs, options)
        self.namespace = Namespace(lab, "box")
        kinds = {"af_packet": Host, "af_xdp": Host, "tap": TapHost}
        self.hosts = [kinds[self.driver(port)](self, port) if self.driver(port) in kinds else None
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
        # af_xdp: a fill ring of 2,048, and what is on its way through the kernel's other rings.
        return sum(2048 + 64 for port in range(self.ports) if self.driver(port) == "af_xdp")

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
        interface = "" if driver == "null" else f",iface=p{port}"
        return (f"  - {{name: p{port}, mtu: {self.options.mtu}, queues: {self.queues}{impair}, "
                f"device: \"net_{driver}{port}{interface}{self.options.device}\"}}")

    def run_program(self, name, command, environment):
        return self.namespace.run(name, command, environment)
