"""The SwitchML dialect, from packets built by hand from its table."""
import struct

from capture import Tshark
from lab import case
from tally_wire import ethernet, ipv4_header, udp_header

SWITCH_PORT = 48864
SIZES = {0: 128, 1: 256, 2: 512, 3: 1024}


def payload(size=1, msg_type=1, unused=0, job_number=200, tsi=0x01020304, pool_index=0x8005, e0=-3, e1=127,
            values=None):
    """The first byte is msg_type (4 bits), unused (1), size (3); tsi little-endian; all else big-endian."""
    count = SIZES.get(size, 128) // 4
    values = list(range(-1, count - 1)) if values is None else values
    return (struct.pack(">BB", msg_type << 4 | unused << 3 | size, job_number) + struct.pack("<I", tsi)
            + struct.pack(">Hbb", pool_index, e0, e1) + struct.pack(f">{len(values)}i", *values))


def frame(data, source=4000, destination=SWITCH_PORT):
    length = 8 + len(data)
    return (ethernet("02:7a:11:00:00:01", "02:00:00:00:00:01", None, 0x0800)
            + ipv4_header("10.0.0.1", "10.0.0.254", length) + udp_header(source, destination, length) + data)


@case()
def switchml_fields(lab):
    """Every field, its place and its name for people; both directions; all sizes."""
    tshark = Tshark(lab)
    frames = {"plain": frame(payload()), "odd": frame(payload(unused=1, pool_index=0x7FFE))}
    frames |= {(size, ports): frame(payload(size), *ports) for size in SIZES
               for ports in ((4001, SWITCH_PORT), (SWITCH_PORT, 4001))}
    packets = tshark.named(frames)
    packet, odd = packets.pop("plain"), packets.pop("odd")
    values = {"msg_type": 1, "unused": 0, "size": 1, "size_bytes": 256, "job_number": 200, "tsi": 0x01020304,
              "pool_index": 0x8005, "set": 1, "pool_index.reserved": 0, "slot": 5, "e0": -3, "e1": 127}
    for name, value in values.items():
        assert packet.number(f"switchml.{name}") == value, name
    assert packet.one("switchml.tsi_bytes") == "04:03:02:01"
    assert list(map(int, packet.all("switchml.value"))) == list(range(-1, 7))
    assert not packet.remarks() and not packet.has_error()
    assert [odd.number(f"switchml.{name}") for name in ("set", "pool_index.reserved", "slot")] == [0, 1, 0x3FFE]
    assert [odd.number(f"switchml.{name}") for name in ("msg_type", "unused", "size")] == [1, 1, 1]
    places = {"msg_type": (0, 1), "unused": (0, 1), "size": (0, 1), "job_number": (1, 1), "tsi": (2, 4),
              "tsi_bytes": (2, 4), "pool_index": (6, 2), "set": (6, 2), "slot": (6, 2), "e0": (8, 1), "e1": (9, 1),
              "values": (10, 256)}
    for name, (offset, size) in places.items():
        assert packet.place(f"switchml.{name}") == (42 + offset, size), name
    assert len(packets) == 2 * len(SIZES)
    for (size, _), packet in packets.items():
        assert packet.number("switchml.size_bytes") == SIZES[size] and not packet.remarks(), size
        assert packet.place("switchml.values") == (52, SIZES[size])
    assert tshark.info([frame(payload()), frame(payload(pool_index=0x3FFF, e0=-128), SWITCH_PORT, 4000)]) == [
        "contribution job 200 tsi 16909060 slot 5 set 1, exponents -3 and 127",
        "result job 200 tsi 16909060 slot 16383 set 0, exponents -128 and 127"]


@case()
def switchml_values_are_bounded(lab):
    """Eight as numbers, or as many as the preference says."""
    tshark = Tshark(lab)
    data = frame(payload(3))
    assert len(tshark.packets([data])[0].all("switchml.value")) == 8
    many = tshark.packets([data], "-o", "switchml.values:1000")[0]
    assert list(map(int, many.all("switchml.value"))) == list(range(-1, 255))


@case()
def switchml_faults(lab):
    """Lengths that do not fit the size, unknown sizes and types, packets and captures cut anywhere."""
    faults = {
        "one value less": (payload()[:-4], "switchml.length.bad"),
        "one byte more": (payload() + b"\0", "switchml.length.bad"),
        "no values": (payload(values=[]), "switchml.length.bad"),
        "unknown size": (payload(size=5), "switchml.header.unknown"),
        "unknown type": (payload(msg_type=2), "switchml.header.unknown")}
    whole = payload(0)
    sizes = range(1, len(whole))
    # Not from port 4000: a single byte from there is ICQ's.
    frames = [*(frame(data) for data, _ in faults.values()), *(frame(whole[:size], 40000) for size in sizes),
              *[frame(whole, 40000)] * len(sizes)]
    kept = [*map(len, frames[:-len(sizes)]), *(42 + size for size in sizes)]
    packets = iter(Tshark(lab).packets(frames, kept=kept))
    for (name, (_, remark)), packet in zip(faults.items(), packets):
        assert packet.remarks() == {remark} and packet.has_error() and not packet.failed(), (name, packet.remarks())
    for remark in ("switchml.length.bad", "switchml.truncated"):
        for size in sizes:
            packet = next(packets)
            assert packet.remarks() == {remark} and not packet.failed(), (remark, size, packet.remarks())


@case()
def switchml_ports(lab):
    """0xBEE0..0xBEEF and no other; whatever the clients' ports 4000 + thread are to others (ICQ, DHCP)."""
    ours = [frame(payload(), 4000, port) for port in (0xBEE0, 0xBEEF)]
    others = [frame(payload(), 40000, port) for port in (0xBEDF, 0xBEF0)]
    clients = [frame(payload(size, job_number=3 * thread), *ports) for thread in range(64) for size in SIZES
               for ports in ((4000 + thread, SWITCH_PORT), (SWITCH_PORT, 4000 + thread))]
    packets = Tshark(lab).packets([*others, *ours, *clients])
    assert len(clients) == 512
    assert not any("switchml" in packet.protocols for packet in packets[:2])
    assert all(packet.protocols[-1] == "switchml" and not packet.has_error() for packet in packets[2:])
