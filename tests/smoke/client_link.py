"""Ways to the box for a member: kernel sockets, or frames made by hand (client_frames.py)."""
import ipaddress
import select
import socket
import struct

from client_wire import JOIN_PORT

DO_NOT_FRAGMENT = {socket.AF_INET: (socket.IPPROTO_IP, 10, 2), socket.AF_INET6: (socket.IPPROTO_IPV6, 23, 2)}
LARGEST = 65535


class SocketLink:
    """One bound UDP socket for all shards, and one more for a group."""

    def __init__(self, box, source="", interface=""):
        self.family = socket.AF_INET6 if ":" in box else socket.AF_INET
        self.box, self.group = box, None
        self.grouped = 0  # datagrams that came to the group
        self.index = socket.if_nametoindex(interface) if interface else 0
        self.sockets = [socket.socket(self.family, socket.SOCK_DGRAM)]
        self.sockets[0].setsockopt(*DO_NOT_FRAGMENT[self.family])
        self.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**21)
        self.sockets[0].bind((source or ("::" if self.family == socket.AF_INET6 else "0.0.0.0"), 0))

    def send(self, shard, data):
        try:
            self.sockets[0].sendto(data, (self.box, JOIN_PORT + shard))
        except OSError:
            pass  # as if lost on the way: the box may be away

    def receive(self, seconds):
        """Datagrams that are there, or come within this time."""
        out = []
        ready = select.select(self.sockets, [], [], seconds)[0]
        for one in ready:
            try:
                while len(out) < 64:
                    out.append(one.recv(LARGEST, socket.MSG_DONTWAIT))
                    self.grouped += one is not self.sockets[0]
            except OSError:
                pass
        return out

    def join_group(self, group, port):
        """group: 16 bytes of JOINED."""
        if self.group == (group, port):
            return
        self.group = (group, port)
        address = ipaddress.IPv6Address(group)
        one = socket.socket(self.family, socket.SOCK_DGRAM)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**21)
        if address.ipv4_mapped:
            one.bind((str(address.ipv4_mapped), port))
            one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                           struct.pack("=4s4si", address.ipv4_mapped.packed, bytes(4), self.index))
        else:
            one.bind((str(address), port))
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group + struct.pack("=I", self.index))
        self.sockets[1:] = [one]
