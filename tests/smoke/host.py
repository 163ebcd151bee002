"""Hosts: where workers and plain programs are, on one port of the box each."""
import pathlib
import sys

from namespace import Namespace

SEND_FRAMES = pathlib.Path(__file__).with_name("send_frames.py")


class Host:
    """A namespace of its own with the interface eth0, a veth whose other end is interface pN of the namespace `far`."""

    def __init__(self, rack, port, far):
        self.rack, self.interface, self.port, self.far = rack, "eth0", port, far
        self.ipv4, self.ipv6 = f"10.0.0.{port + 1}", f"fd00::{port + 1:x}"
        self.namespace = Namespace(rack.lab, f"host{port}")
        self.wire()

    def wire(self, mtu=None):
        """Makes the veth; also when the box's end was deleted, and so both."""
        mtu = mtu or self.rack.options.mtu
        self.far.ip(f"link add p{self.port} mtu {mtu} type veth peer name eth0 mtu {mtu} "
                    f"netns {self.namespace.holder.pid}",
                    f"link set p{self.port} addrgenmode none", f"link set p{self.port} up")
        # Large segments and checksums that nobody has made yet must not reach a port that takes frames as they are.
        self.call("ethtool", "-K", "eth0", "tx", "off")
        if self.rack.options.addresses:
            self.give_addresses()
        else:
            # Nothing is heard but what a case sends.
            self.namespace.ip("link set eth0 addrgenmode none", "link set eth0 up")

    def give_addresses(self):
        self.namespace.ip(f"link set {self.interface} up", f"address add {self.ipv4}/24 dev {self.interface}",
                          f"address add {self.ipv6}/64 dev {self.interface} nodad",
                          f"route add 224.0.0.0/4 dev {self.interface}")

    def give_addresses_again(self):
        """After its interface was down, which takes IPv6 addresses and routes away."""
        self.namespace.ip(f"link set {self.interface} up",
                          f"address replace {self.ipv6}/64 dev {self.interface} nodad",
                          f"route replace 224.0.0.0/4 dev {self.interface}")

    def call(self, *command, **options):
        return self.namespace.call(*command, **options)

    def ping(self, address, size=56):
        """Whether an echo comes back. One at a time: after an answer ping waits for others two round trips only."""
        said = self.call("ping", "-n", "-c", "1", "-W", "10", "-s", str(size), "-M", "do", address, fails=True)
        assert " received" in said, said
        return " 1 received" in said

    def send_frames(self, destination, count):
        self.call(sys.executable, "-B", str(SEND_FRAMES), self.interface, destination, str(count))

    def interface_file(self, name):
        """A file of the interface in the namespace's own /sys."""
        return pathlib.Path(f"/proc/{self.namespace.holder.pid}/root/sys/class/net/{self.interface}/{name}").read_text()

    def mac(self):
        return self.interface_file("address").strip()

    def frames_in(self):
        return int(self.interface_file("statistics/rx_packets"))


class TapHost(Host):
    """The box's own machine, on which the port is an interface while the box runs."""

    def __init__(self, rack, port, _far):  # pylint: disable=super-init-not-called
        self.rack, self.interface, self.namespace = rack, f"p{port}", rack.namespace
        self.ipv4, self.ipv6 = f"10.0.0.{port + 1}", f"fd00::{port + 1:x}"
