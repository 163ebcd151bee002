"""A network namespace without a name: it lives as long as a process that the lab ends, or the kernel if we are killed.
So nothing has to be removed, and nothing can meet what somebody else made."""
import shutil
import subprocess

from lab import Skipped
from programs import wait_until
from workers import is_root

PACKAGES = {"ip": "iproute2", "ethtool": "ethtool", "ping": "iputils-ping", "iperf3": "iperf3",
            "dumpcap": "tshark", "reordercap": "tshark"}


def need(*words):
    """Skips the case unless these programs are there."""
    for word in words:
        if shutil.which(word, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            raise Skipped(f"needs {word}: apt-get install {PACKAGES.get(word, word)}")


class Namespace:
    """Its own interfaces, addresses, neighbours, and /sys that shows these."""

    def __init__(self, lab, name):
        if not is_root():
            raise Skipped("needs root, for network namespaces")
        need("ip", "ethtool", "unshare", "nsenter")
        self.lab, self.name = lab, name
        self.holder = lab.run(f"namespace.{name}", [
            "unshare", "--net", "--mount", "--propagation", "private", "sh", "-c",
            "mount -t sysfs sysfs /sys && echo made && exec sleep infinity"])
        wait_until(f"namespace {name}", lambda: self.holder.said() or not self.holder.runs())
        if not self.holder.runs():
            raise Skipped(f"needs network namespaces; the kernel said: {self.holder.complained().strip()}")
        self.prefix = ["nsenter", "--target", str(self.holder.pid), "--net", "--mount", "--"]
        self.ip("link set lo up")

    def run(self, name, command, environment=None):
        """A Program inside."""
        return self.lab.run(name, [*self.prefix, *command], environment)

    def call(self, *command, seconds=120, fails=False):
        """Runs it to its end; what it said. fails: it may."""
        done = subprocess.run([*self.prefix, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=seconds, stdin=subprocess.DEVNULL, check=False)
        assert fails or done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}: {done.stdout}"
        return done.stdout

    def ip_prefix(self):
        """Where a process number of ours means that process: `netns PID` of a link."""
        return self.prefix

    def ip(self, *lines):
        """Lines of `ip -batch`."""
        done = subprocess.run([*self.ip_prefix(), "ip", "-batch", "-"], input="\n".join(lines) + "\n", text=True,
                              capture_output=True, timeout=30, check=False)
        assert done.returncode == 0, f"ip: {done.stderr} in:\n" + "\n".join(lines)
