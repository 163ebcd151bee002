"""Which chunks some worker sent again: contributions with RETRANSMIT as they come to the box's interfaces, before tallyd
loses any on purpose."""
import ctypes
import select
import socket
import struct
import threading

from ends import NoFigure

ETH_P_IP = 0x0800
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_ATTACH_FILTER = 26
ROOM = 64 << 20
# Offsets in a frame without a tag, docs/protocol.md: UDP port 36, our header 42 (type 1, flags 2, epoch 8, chunk 12).
LOAD_HALF, LOAD_BYTE, AND, JUMP_EQUAL, JUMP_SET, RETURN = 0x28, 0x30, 0x54, 0x15, 0x45, 0x06
FILTER = ((LOAD_BYTE, 0, 0, 43), (JUMP_EQUAL, 0, 6, 1), (LOAD_HALF, 0, 0, 36), (AND, 0, 0, 0xffc0),
          (JUMP_EQUAL, 0, 3, 0xbf00), (LOAD_BYTE, 0, 0, 44), (JUMP_SET, 0, 1, 1), (RETURN, 0, 0, 64), (RETURN, 0, 0, 0))


class RetryWatch:
    """Use as a context; `chunks` afterwards. The kernel hands up only what the filter lets through."""

    def __init__(self):
        self.chunks = set()
        code = b"".join(struct.pack("HBBI", *line) for line in FILTER)
        self.code = ctypes.create_string_buffer(code, len(code))
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_IP))
        self.socket.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER,
                               struct.pack("HP", len(FILTER), ctypes.addressof(self.code)))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUFFORCE if hasattr(socket, "SO_RCVBUFFORCE") else 33, ROOM)
        self.done = threading.Event()
        self.reader = threading.Thread(target=self.read)

    def __enter__(self):
        self.reader.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.reader.join()
        _, dropped = struct.unpack("II", self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))
        self.socket.close()
        if dropped:
            raise NoFigure(f"{dropped:,} repeated contributions were not seen in time, so their chunks cannot be counted")

    def read(self):
        while True:
            if not select.select([self.socket], [], [], 0.05)[0]:
                if self.done.is_set():
                    return
                continue
            frame = self.socket.recv(64)
            if frame[12:14] == b"\x08\x00":
                self.chunks.add(frame[50:58])
