"""One allreduce job over a shaped rack: its workers are started, their sums checked, their times read."""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from ends import NoFigure, Process
from shaped_rack import BOX, JOB, MPI_JOB, machine_ns

PATIENCE = 60  # seconds for a job
# UCX looks for interfaces in /sys, which shows the namespace in which it was mounted.
OWN_SYS = ["unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh"]
HERE = pathlib.Path(__file__).resolve().parent


def run_all(processes):
    """Waits for them; all are gone afterwards."""
    try:
        for process in processes:
            process.end_well(PATIENCE)
    except subprocess.TimeoutExpired as late:
        raise NoFigure(f"a job did not end within {PATIENCE} s") from late
    finally:
        for process in processes:
            end(process)


def end(process):
    """A launcher ends its ranks when it is asked to."""
    if process.process.poll() is None:
        process.process.terminate()
        try:
            process.process.wait(5)
        except subprocess.TimeoutExpired:
            pass
    process.close()


def figures(us, bytes_of_array, wrong, **others):
    if wrong:
        raise NoFigure(f"{wrong} sums are wrong")
    return {"mbit_s": bytes_of_array * 8 / statistics.mean(us), "us": us, **others}


class Plan:
    """How much one job of a round does."""

    def __init__(self, mebibytes, iterations, warm_up):
        self.bytes, self.iterations, self.warm_up = int(mebibytes * (1 << 20)), iterations, warm_up

    def of(self, size):
        """The same for arrays of `size` bytes, many times."""
        return Plan(size / (1 << 20), 300, 20)

    def words(self):
        return ["-n", self.iterations, "-w", self.warm_up]


def tally(rack, plan):
    """Ours: tally-perf over udp in every host, floats."""
    with tempfile.TemporaryDirectory(dir=rack.scratch) as scratch:
        file = pathlib.Path(scratch, "perf.json")
        workers = []
        for host in rack.hosts:
            variables = {"TALLY_JOB": JOB, "TALLY_SWITCH": BOX, "TALLY_WORLD": str(len(rack.hosts)),
                         "TALLY_RANK": str(host.index), "TALLY_TRANSPORT": os.environ.get("TALLY_TRANSPORT", "udp"),
                         "TALLY_DEBUG": "INFO"}
            words = [*host.inside, rack.build / "host/perf/tally-perf", "-b", plan.bytes, "-e", plan.bytes, *plan.words()]
            workers.append(Process(scratch, f"worker{host.index}", words + (["--json", file] if host.index == 0 else []),
                                   environment=variables))
        run_all(workers)
        said = workers[0].said()
        perf = json.loads(file.read_text())
    row = perf["rows"][0]
    return figures([row["us"]["avg"]], row["bytes"], row["wrong"], retransmissions=row["retransmissions"],
                   chunks=row["packets"], ends=said[said.rfind(": end, "):].strip(), p50_us=row["us"]["p50"], least_us=row["us"]["min"], most_us=row["us"]["max"])


def gloo(rack, plan):
    with tempfile.TemporaryDirectory(dir=rack.scratch) as scratch:
        file, store = pathlib.Path(scratch, "gloo.json"), pathlib.Path(scratch, "store")
        store.mkdir()
        run_all([Process(scratch, f"gloo{host.index}", [
            *host.inside, rack.build / "bench/rings/tally_gloo_ring", "-b", plan.bytes, *plan.words(), "--rank", host.index,
            "--world", len(rack.hosts), "--store", store, "--address", host.address, "--json", file])
                 for host in rack.hosts])
        done = json.loads(file.read_text())
    return figures(done["us"], done["bytes"], done["wrong"])


def mpi(rack, plan, algorithm="tsp_ring", before=()):
    """MPICH starts its ranks through a stand-in for ssh that enters the host's namespace; the rest of it uses TCP only."""
    with tempfile.TemporaryDirectory(dir=rack.scratch) as scratch:
        file = pathlib.Path(scratch, "mpi.json")
        variables = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "UCX_WARN_UNUSED_ENV_VARS": "n",
                     "MPIR_CVAR_IALLREDUCE_INTRA_ALGORITHM": algorithm, "TALLY_JOB": MPI_JOB, "TALLY_SWITCH": BOX, "TALLY_MPI_MIN": "0", "TALLY_MPI_HOSTS": json.dumps(
                         {host.address: host.inside for host in rack.hosts})}
        words = [*rack.hosts[0].inside, *OWN_SYS, *before, "mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", HERE.parents[1] / "tests/mpi/enter_host.py",
                 "-iface", "eth0", "-hosts", ",".join(host.address for host in rack.hosts), "-ppn", "1",
                 rack.build / "bench/rings/tally_mpi_ring", "-b", plan.bytes, *plan.words(), "--json", file]
        run_all([Process(scratch, "mpi", words, environment=variables)])
        done = json.loads(file.read_text())
    return figures(done["us"], done["bytes"], done["wrong"])


def tally_mpi(rack, plan):
    """The same program, whose sums go through the box."""
    return mpi(rack, plan, before=[rack.build / "host/mpi/tally-mpi", "--require"])


def ddp(rack, plan, way):
    """Training steps of DistributedDataParallel in every host: by gloo, or through the box."""
    with tempfile.TemporaryDirectory(dir=rack.scratch) as scratch:
        file, store = pathlib.Path(scratch, "ddp.json"), pathlib.Path(scratch, "store")
        ranks = []
        for host in rack.hosts:
            variables = {"TALLY_JOB": JOB, "TALLY_SWITCH": BOX, "TALLY_WORLD": str(len(rack.hosts)), "TALLY_RANK": str(host.index),
                         "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(rack.build / "host/python")}
            ranks.append(Process(scratch, f"ddp{host.index}", [*host.inside, "/usr/bin/python3", "-B", HERE / "ddp_rank.py", way,
                                                               plan.iterations, store, file], environment=variables))
        run_all(ranks)
        done = json.loads(file.read_text())
    if done["wrong"]:
        raise NoFigure(f"the gradients of {done['wrong']} parameters are no means of all ranks'")
    row = {"step_ms": 1e3 * statistics.median(done["seconds"]), "alone_ms": 1e3 * done["alone"], "bytes": done["bytes"]}
    if way != "gloo":
        row.update({key: done[key] for key in ("call_us", "end_us", "hidden")}, sums_ms=1e3 * done["sums"],
                   long_alone_ms=1e3 * done["long_alone"])
    return row


def with_cpu(job, *arguments):
    """The job's figures with the share of the machine's CPUs that was in use meanwhile."""
    busy, every = machine_ns()
    row = job(*arguments)
    busy_after, every_after = machine_ns()
    row["cpu_share"] = (busy_after - busy) / max(1, every_after - every)
    return row
