"""send_flood.py INTERFACE ADDRESS KIND SECONDS [MAC]: frames for the box as fast as they go, from whoever has a port.

KIND: heartbeats (of a job that is not there), malformed (JOINs of a real job), token (JOINs with a wrong token and a right
challenge), challenge (JOINs with a made-up one), sources (all of these from made-up addresses). MAC: instead of the
box's, so that the box forwards the same frames. Prints how many.
"""
import random
import socket
import sys
import time

import client_control as control
import client_wire as wire
from client_frames import FrameLink

BOX_MAC = bytes.fromhex("027a110000fe")
FRAMES = 512
NAME, WORLD = b"job", 2
REFRESH = 3  # seconds; a challenge is good for 4


def join(i, key, challenge=control.NO_CHALLENGE, name=NAME):
    return control.join(key, name, i % WORLD, i + 1, random.getrandbits(64), i, 0, 0, WORLD, 352, control.NO_RECORD,
                        challenge)


def heartbeat(i):
    return control.counted(bytes(32), wire.HEARTBEAT, i + 1, b"nobody", job=777, epoch=12345, cookie=99)


def malformed(i):
    body = bytes(80 + i % 40)
    return wire.make(wire.JOIN, body)


def contribution(i):
    return wire.make(wire.CONTRIBUTE, job=777, epoch=12345, cookie=99, contributors=1, slot=i + 1)


def challenged(address):
    """A challenge for a process at UDP port 40,000: kernel socket, so that the box learns where it is."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as way:
        way.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        way.bind((address, 40000))
        way.settimeout(1)
        while True:
            way.sendto(join(0, bytes(32)), ("10.0.0.254", wire.JOIN_PORT))
            try:
                header, payload = wire.parse(way.recv(2048))
            except (TimeoutError, ConnectionError):
                continue
            if header.type == wire.CHALLENGE:
                return control.parse_challenge(payload)[1]


def datagrams(kind, address):
    wrong = control.job_key(NAME, b"wrong")
    if kind == "heartbeats":
        return [heartbeat(i) for i in range(FRAMES)]
    if kind == "malformed":
        return [malformed(i) for i in range(FRAMES)]
    if kind == "challenge":
        return [join(i, wrong, random.randbytes(16)) for i in range(FRAMES)]
    if kind == "token":
        # Of one process, or the challenge would not be its own.
        challenge = challenged(address)
        return [control.join(wrong, NAME, 0, 1, random.getrandbits(64), i, 0, 0, WORLD, 352, control.NO_RECORD, challenge)
                for i in range(32)]
    make = (heartbeat, malformed, contribution, lambda i: join(i, wrong))
    return [make[i % len(make)](i) for i in range(FRAMES)]


def frames(link, kind, address, to):
    out = []
    for data in datagrams(kind, address):
        if kind == "sources":
            link.source, link.port = bytes([10, *random.randbytes(3)]), random.randrange(1024, 65536)
        out.append(to + link.mac + b"\x08\x00" + link.udp(wire.JOIN_PORT, data))
    return out


def main():
    interface, address, kind, seconds = sys.argv[1:5]
    to = bytes.fromhex(sys.argv[5].replace(":", "")) if len(sys.argv) > 5 else BOX_MAC
    link = FrameLink(interface, "10.0.0.254", address)
    prepared = frames(link, kind, address, to)
    end = time.monotonic() + float(seconds)
    fresh = time.monotonic() + REFRESH
    sent = 0
    send = link.socket.send
    while time.monotonic() < end:
        for frame in prepared:
            try:
                send(frame)
            except OSError:  # no room in the interface's queue
                continue
        sent += len(prepared)
        if kind == "token" and time.monotonic() > fresh:
            prepared, fresh = frames(link, kind, address, to), time.monotonic() + REFRESH
    print(sent)


if __name__ == "__main__":
    main()
