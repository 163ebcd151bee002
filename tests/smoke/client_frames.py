"""The way to the box by frames made by hand, on a packet socket: a VLAN tag needs no help of the kernel then.

Ethernet, at most one tag, IPv4, UDP, as docs/protocol.md, section 2 says. The interface must have no IP address:
the kernel would answer for it.
"""
import ipaddress
import select
import socket
import struct

from client_wire import JOIN_PORT

ETH_P_ALL, PACKET_AUXDATA, SOL_PACKET, VLAN_VALID, OUTGOING = 3, 8, 263, 16, 4
BROADCAST = b"\xff" * 6


def internet_checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class FrameLink:
    """vlan: None (no tag) or 0..4095."""

    def __init__(self, interface, box, source, source_port=40000, vlan=None):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.bind((interface, ETH_P_ALL))
        self.mac = self.socket.getsockname()[4]
        self.box, self.source = (ipaddress.IPv4Address(a).packed for a in (box, source))
        self.port, self.vlan, self.box_mac = source_port, vlan, BROADCAST
        self.group, self.grouped = None, 0

    def send(self, shard, data):
        self.send_frame(self.box_mac, self.udp(JOIN_PORT + shard, data))

    def send_frame(self, destination, packet, ether_type=0x0800):
        tag = b"" if self.vlan is None else struct.pack(">HH", 0x8100, self.vlan)
        self.socket.send(destination + self.mac + tag + struct.pack(">H", ether_type) + packet)

    def udp(self, port, data):
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 28 + len(data), 0, 0x4000, 64, 17, 0, self.source, self.box)
        head = head[:10] + struct.pack(">H", internet_checksum(head)) + head[12:]
        return head + struct.pack(">HHHH", self.port, port, 8 + len(data), 0) + data

    def receive(self, seconds):
        out = []
        if not select.select([self.socket], [], [], seconds)[0]:
            return out
        try:
            while len(out) < 64:
                data = self.payload(*self.receive_frame())
                if data is not None:
                    out.append(data)
        except BlockingIOError:
            pass
        return out

    def receive_frame(self):
        """(frame without tag, VLAN id or None). The kernel takes the tag off and tells it beside the frame."""
        frame, beside, _, address = self.socket.recvmsg(65535, 256, socket.MSG_DONTWAIT)
        if address[2] == OUTGOING:
            return b"", None
        for level, kind, data in beside:
            if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                status, tag = struct.unpack_from("=I12xH", data)
                if status & VLAN_VALID:
                    return frame, tag & 0xFFF
        return frame, None

    def payload(self, frame, vlan):
        """The datagram in a frame for us; None if it is not."""
        if len(frame) < 42 or frame[12:14] != b"\x08\x00" or vlan != self.vlan or frame[23] != 17:
            return None
        port, length = struct.unpack_from(">2xHH", frame, 34)
        single = frame[:6] == self.mac and frame[30:34] == self.source and port == self.port
        grouped = self.group is not None and (frame[30:34], port) == self.group
        if frame[26:30] != self.box or not (single or grouped):
            return None
        self.box_mac = frame[6:12]
        self.grouped += grouped
        return frame[42:34 + length]

    def join_group(self, group, port):
        self.group = (group[12:], port)
        words = struct.pack("=iHH8s", socket.if_nametoindex(self.socket.getsockname()[0]), 0, 6,
                            b"\x01\x00\x5e" + bytes([group[13] & 0x7F]) + group[14:])
        self.socket.setsockopt(SOL_PACKET, 1, words)
