"""page_probe.py BOX SIZE...: sends a PROBE with so many bytes of payload each; says which came back unchanged."""
import json
import os
import sys

import client_wire as wire
from client_link import SocketLink


def comes_back(link, size):
    payload = os.urandom(size)
    for _ in range(4):
        link.send(0, wire.make(wire.PROBE, payload, chunk=size))
        for data in link.receive(0.3):
            header, got = wire.parse(data)
            if (header.type, header.rank, header.chunk, got) == (wire.PROBE, wire.BOX, size, payload):
                return True
    return False


def main():
    link = SocketLink(sys.argv[1])
    print(json.dumps({size: comes_back(link, int(size)) for size in sys.argv[2:]}))


if __name__ == "__main__":
    main()
