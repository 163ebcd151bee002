"""Racks of tools/veth-rack for benchmarks."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from ends import die_with_parent

ROOT = pathlib.Path(__file__).resolve().parents[2]
SYSTEM = {"dpdk-testpmd": "dpdk-dev", "ip": "iproute2", "ethtool": "ethtool", "ping": "iputils-ping"}
# Drivers read /sys, which shows the namespace in which it was mounted.
OWN_SYS = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh"]


def why_not():
    """Why there can be none here; empty if there can."""
    if os.geteuid() != 0:
        return "needs root, for network namespaces and sockets of frames"
    if len(os.sched_getaffinity(0)) < 2:
        return "needs two CPUs, this process may use one"
    for program, package in SYSTEM.items():
        if shutil.which(program) is None:
            return f"{program} is not installed (package {package})"
    probe = subprocess.run(["unshare", "--net", "--mount", "true"], capture_output=True, text=True, check=False)
    return f"no network namespace: {probe.stderr.strip()}" if probe.returncode != 0 else ""


def in_rack(scratch, ports, *command):
    """Runs it in a rack; nothing of that is left when it ends. Ends us as it ends, unless well."""
    rack = subprocess.Popen([ROOT / "tools" / "veth-rack", str(ports), "10.0.0.0/24", "--", *map(str, command)],
                            env={**os.environ, "TMPDIR": scratch}, preexec_fn=die_with_parent)
    try:
        code = rack.wait()
    except BaseException:
        rack.send_signal(signal.SIGKILL)  # the hosts end with their pipes, the others with their parents
        rack.wait()
        raise
    if code != 0:
        sys.exit(code)
