"""first_frames.py INTERFACE: what a host behind this port of a switch says first: the report of its group
('report 239.192.0.1'), or a contribution ('contribution'). Ends when it has heard both; a line each, in order."""
import socket
import sys

from client_wire import CONTRIBUTE

ETH_P_ALL, OUTGOING = 3, 4
IPV4, IGMP, UDP = b"\x08\x00", 2, 17
V2_REPORT, V3_REPORT = 0x16, 0x22


def kind_of(frame):
    """Empty: neither."""
    if frame[12:14] != IPV4:
        return ""
    protocol, body = frame[23], frame[14 + 4 * (frame[14] & 15):]
    if protocol == UDP and body[9:10] == bytes([CONTRIBUTE]):
        return "contribution"
    if protocol != IGMP or body[0] not in (V2_REPORT, V3_REPORT):
        return ""
    group = body[4:8] if body[0] == V2_REPORT else body[12:16]
    return f"report {socket.inet_ntoa(group)}"


def main():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as there:
        there.bind((sys.argv[1], ETH_P_ALL))
        print("listening", flush=True)
        heard = []
        while len(heard) < 2:
            frame, sender = there.recvfrom(2048)
            kind = "" if sender[2] == OUTGOING else kind_of(frame)
            if kind and kind not in heard:
                heard.append(kind)
                print(kind, flush=True)


if __name__ == "__main__":
    main()
