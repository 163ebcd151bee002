"""A box of an example's own on this machine, and ranks beside it. They talk through shared memory (memif), so neither root
nor a network is needed; all share this machine's CPUs.

   local_box.py RANKS_FILE PROGRAM...: PROGRAM as the rank that mpirun made it, with that rank's variables.
"""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

PYTHON = "/usr/bin/python3"  # Debian's, which has torch
READY = 120  # seconds; a machine may be busy


def fail(text):
    sys.exit(f"run: {text}")


def at_least(least):
    """For argparse."""
    def number(text):
        if int(text) < least:
            raise ValueError
        return int(text)
    number.__name__ = f"number of at least {least}"
    return number


def end_with_us():
    """In a child: killed with its parent, however that ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def environment(variables):
    """Without what the user's shell has for other boxes."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}, **variables}


def need(build, *files):
    """(file, what brings it)..."""
    for file, where in ((build / "control/tallyd", "make build"), *files):
        if not file.exists():
            fail(f"there is no {file}; {where} brings it")


def need_torch(build):
    need(build)
    if not list((build / "host/python/tally").glob("_tally.*.so")):
        fail(f"{build} has no Python package; install python3-dev and pybind11-dev (make deps), then make build")
    if subprocess.run([PYTHON, "-c", "import torch"], capture_output=True, check=False).returncode:
        fail("python3-torch is not installed; make deps-frameworks brings it")


class LocalBox:
    """A tallyd with one job and a port for each of its ranks, ready. To be left by `with`."""

    def __init__(self, build, job, ranks):
        self.build, self.job, self.ranks, self.programs = build, job, ranks, []
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"tally-{job}-"))
        ports = "\n".join(f'  - {{name: w{r}, device: "net_memif{r},role=server,id={r},socket={self.folder}/memif.sock,'
                          f'socket-abstract=no"}}' for r in range(ranks))
        config, log = self.folder / "box.yaml", self.folder / "tallyd.log"
        config.write_text(f"""instance: {job}-{os.getpid()}
dataplane: {{cores: [{max(os.sched_getaffinity(0))}], memory: 128MiB, slots: 16MiB, hugepages: off}}
control: {{socket: {self.folder}/control.sock}}
box: {{ipv4: 10.0.0.1/24}}
ports:
{ports}
jobs:
  - {{name: {job}, workers: {ranks}, token_file: none}}
""")
        with open(log, "w", encoding="utf-8") as out:
            self.daemon = subprocess.Popen([build / "control/tallyd", "--config", config], stdout=out, stderr=subprocess.STDOUT,
                                           env=environment({}), preexec_fn=end_with_us)
        try:
            end = time.monotonic() + READY
            while "ready: " not in log.read_text():
                if self.daemon.poll() is not None or time.monotonic() > end:
                    fail(f"tallyd is not ready; it said:\n{log.read_text()}")
                time.sleep(0.05)
        except BaseException:
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C leaves nothing behind either
        for program in [*self.programs, self.daemon]:
            if program.poll() is None:
                program.terminate()
            program.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, commands, variables):
        """One program for each; fails at the first that does, and ends the others."""
        self.programs = [subprocess.Popen(command, env=environment(of), preexec_fn=end_with_us)
                         for command, of in zip(commands, variables)]
        codes = [None]
        while None in codes and not any(codes):
            time.sleep(0.05)
            codes = [program.poll() for program in self.programs]
        if any(codes):
            fail(f"{pathlib.Path(commands[0][0]).name} ended with {', '.join(str(code) for code in codes if code)} (its words are above)")

    def variables(self, rank):
        """Over memif a rank has a port of its own, so each has an environment."""
        return {"TALLY_SWITCH": "10.0.0.1", "TALLY_JOB": self.job, "TALLY_ADDRESS": f"10.0.0.{10 + rank}/24", "TALLY_TRANSPORT":
                f"dpdk:net_memif0,role=client,id={rank},socket={self.folder}/memif.sock,socket-abstract=no"}

    def train(self, way, script, *options, more=None):
        """All ranks of a script, which meet as torchrun's do; what rank 0 wrote to --json. more: variables."""
        results = self.folder / f"{way}.json"
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            port = listening.getsockname()[1]
        meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(self.ranks), "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(self.build / "host/python")}
        self.run([[PYTHON, "-B", script, *options, "--json", results]] * self.ranks,
                 [{**meet, **self.variables(rank), "RANK": str(rank), **(more or {}), "DMLC_RANK": str(rank)} for rank in range(self.ranks)])
        return json.loads(results.read_text())


def need_plot(file):
    """Before the work is done whose plot it is."""
    try:
        if file:
            import matplotlib  # noqa: F401  pylint: disable=unused-import
    except ImportError:
        fail("--plot needs python3-matplotlib")


def plot(file, what, curves):
    """curves: (name, values)..."""
    import matplotlib
    matplotlib.use("agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for (name, values), style in zip(curves, ("-", "--", ":", "-.")):
        axes.plot(values, style, label=name, linewidth=1)
    axes.set_xlabel("step")
    axes.set_ylabel(what)
    axes.legend()
    figure.savefig(file, bbox_inches="tight")
    print(f"run: {file}")


if __name__ == "__main__":
    me = os.environ.get("OMPI_COMM_WORLD_RANK") or os.environ["PMI_RANK"]
    os.environ.update(json.loads(pathlib.Path(sys.argv[1]).read_text())[int(me)])
    os.execvp(sys.argv[2], sys.argv[2:])
