"""A box on one port of a switch that is not ours: a bridge of the kernel, with the hosts on its other ports."""
import time

from host import Host
from namespace import Namespace
from rack import Rack


def run_one_arm(lab, jobs, hosts, **options):
    return OneArm(lab, jobs, hosts, **options).start()


class OneArm(Rack):
    """hosts: how many, at least as many as there are workers."""

    def __init__(self, lab, jobs, hosts, **options):
        self.hosts_wanted = hosts
        super().__init__(lab, jobs, hosts=1, mode="one-arm", **options)
        for job in jobs:
            job.first_port = 0

    def make_hosts(self):
        """The bridge knows who is in which group, and forwards a group's frames to these only."""
        self.switch = switch = Namespace(self.lab, "switch")
        mtu = self.options.mtu
        switch.ip("link add br0 type bridge mcast_query_response_interval 10",
                  "link set br0 type bridge mcast_querier 1",
                  f"link add box mtu {mtu} type veth peer name p0 mtu {mtu} netns {self.namespace.holder.pid}",
                  "link set box master br0", "link set box up", "link set br0 up")
        self.namespace.ip("link set p0 addrgenmode none", "link set p0 up")
        switch.call("ethtool", "-K", "box", "tx", "off")
        hosts = [Host(self, port, switch) for port in range(self.hosts_wanted)]
        switch.ip(*(f"link set p{port} master br0" for port in range(self.hosts_wanted)))
        time.sleep(0.1)  # a bridge asks who is in which group, and snoops when it has had the answers
        return hosts
