#!/usr/bin/python3
"""unit_probe.py CALL: in the place of a unit's program, does what it must not be able to.

A number is a system call, made with nothing but zeros: who may not make it is killed by it. `report` tries what is refused
without being killed, and prints what went through, as JSON: nothing, if all is as it should be. `report-iopl` also tries
that call, which a unit whose program loads DPDK refuses and does not kill for.
"""
import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import socket
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
IOPL = 172
FAMILIES = {"AF_XDP": 44, "AF_PACKET": 17, "AF_VSOCK": 40, "AF_ALG": 38}
FILES = ("/etc/tally/ours", "/usr/bin/ours", "/home/ours", "/var/lib/ours", "/run/ours", "/proc/sys/vm/nr_hugepages",
         "/sys/kernel/mm/transparent_hugepage/enabled", "/dev/hugepages/ours")
DEVICES = ("/dev/tty", "/dev/net/tun", "/dev/mem", "/dev/vfio/vfio")
PLACES = ("/run/tally/ours", "/tmp/ours")


def possible(action, things):
    """Those with which it does not fail."""
    done = []
    for thing in things:
        with contextlib.suppress(OSError):
            action(thing)
            done.append(thing)
    return done


def append(path):
    with open(path, "a", encoding="ascii"):
        pass


def main():
    if not sys.argv[1].startswith("report"):
        LIBC.syscall(int(sys.argv[1]), 0, 0, 0, 0, 0, 0)
        print("it was let through", flush=True)
        return 0
    processes = [path for path in pathlib.Path("/proc").iterdir() if path.name.isdigit()]
    print(json.dumps({
        "families": possible(lambda name: socket.socket(FAMILIES[name], socket.SOCK_RAW, 0).close(), FAMILIES),
        "files": possible(append, FILES),
        "places": possible(append, PLACES),
        "devices": possible(lambda path: os.close(os.open(path, os.O_RDWR)), DEVICES),
        "code that is written": possible(lambda rights: mmap.mmap(-1, 4096, prot=rights).close(), [mmap.PROT_WRITE | mmap.PROT_EXEC]),
        "iopl": sys.argv[1] == "report-iopl" and LIBC.syscall(IOPL, 3) == 0,
        "other users' processes": [path.name for path in processes if path.stat().st_uid != os.geteuid()]}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
