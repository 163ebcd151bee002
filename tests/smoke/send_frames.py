"""send_frames.py INTERFACE DESTINATION COUNT: so many frames of 60 bytes, of a type that nobody speaks."""
import socket
import sys

EXPERIMENTAL = 0x88B5


def main():
    interface, destination, count = sys.argv[1:]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((interface, 0))
        source = out.getsockname()[4]
        for _ in range(int(count)):
            out.send(bytes.fromhex(destination.replace(":", "")) + source + EXPERIMENTAL.to_bytes(2, "big") + bytes(46))


if __name__ == "__main__":
    main()
