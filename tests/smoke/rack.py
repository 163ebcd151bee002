"""A box with kernel ports in a namespace of its own, and hosts in theirs, a veth from each to the box."""
import dataclasses

from box import Box, Options
from namespace import Namespace

BOX_MAC = "02:7a:11:00:00:fe"


@dataclasses.dataclass(frozen=True)
class Wires(Options):
    """What differs between racks. driver: of every port, or a tuple, one for each."""
    driver: object = "af_packet"
    impair: str = ""  # of every port, YAML: 'loss: 1%, duplicate: 1%'
    mode: str = ""
    memory: str = "256MiB"
    mtu: int = 2100
    addresses: bool = True  # of the hosts


class Host:
    """One namespace with the interface eth0, which is on a port of the box."""

    def __init__(self, rack, port):
        self.rack, self.port = rack, port
        self.namespace = Namespace(rack.lab, f"host{port}")
        self.ipv4, self.ipv6 = f"10.0.0.{port + 1}", f"fd00::{port + 1:x}"
        rack.namespace.ip(f"link add p{port} mtu {rack.options.mtu} type veth peer name eth0 "
                          f"mtu {rack.options.mtu} netns {self.namespace.holder.pid}",
                          f"link set p{port} addrgenmode none", f"link set p{port} up")
        # Large segments and checksums that nobody has made yet must not reach a port that takes frames as they are.
        self.namespace.call("ethtool", "-K", "eth0", "tx", "off")
        self.namespace.ip("link set eth0 up")

    def give_addresses(self):
        self.namespace.ip(f"address add {self.ipv4}/24 dev eth0", f"address add {self.ipv6}/64 dev eth0 nodad",
                          "route add 224.0.0.0/4 dev eth0")
        self.namespace.ip(f"neighbour replace 10.0.0.254 lladdr {BOX_MAC} dev eth0",
                          f"neighbour replace fd00::fe lladdr {BOX_MAC} dev eth0")

    def call(self, *command, **options):
        return self.namespace.call(*command, **options)

    def ping(self, address, count=3, size=56):
        """How many answers came."""
        said = self.call("ping", "-n", "-i", "0.02", "-c", str(count), "-W", "2", "-s", str(size), "-M", "do", address,
                         fails=True)
        return int(said.split(" received")[0].split()[-1])


def run_rack(lab, jobs, *arguments, **options):
    """A rack with these options (Wires), its box ready."""
    return Rack(lab, jobs, **options).start(*arguments)


class Rack(Box):
    """jobs and options as of a Box; ports without a job's worker are behind the jobs' (spare_ports)."""

    def __init__(self, lab, jobs, **options):
        super().__init__(lab, jobs, Wires(**options))
        self.namespace = Namespace(lab, "box")
        self.hosts = [Host(self, port) for port in range(self.ports)]
        if self.options.addresses:
            for host in self.hosts:
                host.give_addresses()

    def address_for(self, ipv6):
        """The box's, for a host's sockets."""
        return "fd00::fe" if ipv6 else "10.0.0.254"

    def address_yaml(self):
        mode = f", mode: {self.options.mode}" if self.options.mode else ""
        return f"box: {{ipv4: 10.0.0.254/24, ipv6: fd00::fe/64, mac: '{BOX_MAC}'{mode}}}"

    def port_yaml(self, port):
        driver = self.options.driver
        driver = driver if isinstance(driver, str) else driver[port]
        impair = f", impair: {{{self.options.impair}, seed: {port + 1}}}" if self.options.impair else ""
        return (f"  - {{name: p{port}, mtu: {self.options.mtu}, queues: {self.queues}{impair}, "
                f"device: \"net_{driver}{port},iface=p{port}{self.options.device}\"}}")

    def run_program(self, name, command, environment):
        return self.namespace.run(name, command, environment)

