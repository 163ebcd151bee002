"""MPI programs over a box: all ranks on one host, by both MPIs."""
import json
import os
import pathlib
import re
import shutil

from box import Job
from lab import Skipped, case
from programs import Programs, wait_until
from rack import run_rack

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "mpi"
# Open MPI: as root, with more ranks than CPUs.
RUN = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe"],
       "mpich": ["mpirun.mpich"]}


def need(*programs):
    if not (Programs.build and pathlib.Path(Programs.build, "host/mpi/tally-mpi").exists()):
        raise Skipped("the build has no tally-mpi")
    for program in programs:
        if shutil.which(program) is None:
            raise Skipped(f"{program} is not installed (make deps-frameworks)")


def compiled(lab, compiler, source, *flags):
    program = pathlib.Path(lab.directory, f"{source}.{compiler}.{len(flags)}")
    done = lab.run(program.name, [compiler, "-O1", "-w", *flags, "-o", str(program), str(SOURCES / source), "-lm"])
    assert done.wait(60) == 0, done.complained()
    return str(program)


def start(rack, job, mpi, ranks, command, environment=None, box=True):
    """All ranks on the first host."""
    host = rack.hosts[0]
    host.namespace.ip("link set lo up")
    variables = {"TALLY_JOB": job.name, "TALLY_SWITCH": rack.address_for(False), "TALLY_JOIN_TIMEOUT": "30",
                 "TALLY_DEBUG": "INFO",
                 # By shared memory: namespaces have no name service.
                 "OMPI_MCA_btl": "self,vader", **(environment or {})}
    shim = [str(pathlib.Path(Programs.build, "host/mpi/tally-mpi"))] if box else []
    return host.namespace.run(f"{mpi}{ranks}", [*shim, *RUN[mpi], "-n", str(ranks), *command], variables)


def report_of(program, ends=True):
    """How many sums went through the box, and the line that says so. ends: or it need not, for MPI_Finalize of MPICH 4.0.2
    over UCX's TCP waits for ever now and then, also without us."""
    code = 0
    if ends:
        code = program.wait(200 if "MPI_CALLS" not in os.environ else 3000)
    else:
        wait_until(lambda: f"the report; {program.said()}{program.complained()}",
                   lambda: "tally-mpi: " in program.complained() and "all good" in program.said() or not program.runs(), 100)
        program.kill()
    assert code == 0 and "all good" in program.said(), f"{program.name} ended with {code}:\n{program.said()}{program.complained()}"
    report = re.search(r"tally-mpi: (\d+) sums of .*", program.complained())
    return int(report[1]) if report else 0, report[0] if report else program.complained()


def run(*arguments, **options):
    return report_of(start(*arguments, **options))


def random_calls(lab, mpi, calls):
    """MPI_CALLS: so many instead."""
    calls = int(os.environ.get("MPI_CALLS", calls))
    need(f"mpicc.{mpi}", RUN[mpi][0])
    job = Job(workers=8, admit="{groups: 64, idle: 1s}")
    rack = run_rack(lab, [job], impair="loss: 0.1%")
    program = compiled(lab, f"mpicc.{mpi}", "random_calls.c")
    taken, report = run(rack, job, mpi, 8, [program, str(calls), "7"], {"TALLY_MPI_MIN": "0"})
    assert taken > calls / 3 and "no box" not in report, report
    assert re.search(r"operation 1, type \d+", report), report
    rack.stop()


@case()
def random_calls_of_openmpi(lab):
    """Beside PMPI's answers: types, IN_PLACE, communicators that come and go, nonblocking sums and all that ends them."""
    random_calls(lab, "openmpi", 1000)


@case()
def random_calls_of_mpich(lab):
    # Its ranks never sleep: eight on two CPUs take 20 times as long.
    random_calls(lab, "mpich", 100)


@case()
def mpi_sums_that_fail(lab):
    """Arrays that differ, a sum that lacks a rank, a box that is gone for good: an error at every rank, and its reason."""
    need("mpicc.openmpi", RUN["openmpi"][0])
    job = Job(workers=2, lease="3s")
    late = Job(name="late", workers=2, lease="30s", stragglers="timeout: 2s, min: 1", first_port=1)
    rack = run_rack(lab, [job, late])
    faults = compiled(lab, "mpicc.openmpi", "faults.c", "-pthread")
    for what, of, reason in (("late", late, "the sum lacks ranks"), ("sizes", job, "differ"), ("lost", job, "unreachable")):
        running = start(rack, of, "openmpi", 2, [faults, what])
        if what == "lost":
            wait_until("the first sums", lambda: "ready" in running.said())  # pylint: disable=cell-var-from-loop
            rack.kill()
        assert running.wait(60) == 0 and "all good" in running.said(), f"{what}:\n{running.complained()}"
        for rank in range(2):
            assert re.search(f"rank {rank}: .*{reason}", running.complained()), running.complained()


@case()
def mpi_threads_share_a_communicator(lab):
    """One waits for a nonblocking sum while another frees the communicator: it is completed once."""
    job = Job(workers=2, admit="{groups: 64, idle: 1s}")
    rack = run_rack(lab, [job])
    for mpi in RUN:
        need(f"mpicc.{mpi}", RUN[mpi][0])
        faults = compiled(lab, f"mpicc.{mpi}", "faults.c", "-pthread")
        taken, report = run(rack, job, mpi, 2, [faults, "shared"])
        assert taken == 51, report
    rack.stop()


# A rank that hangs in MPI_Finalize, see report_of(), would spin for ever.
DIES_WITH_PARENT = ["setpriv", "--pdeathsig", "KILL"]


def over_hosts(rack, mpi, each):
    """The launcher's options for so many ranks on each host of a rack, which it enters as others do by ssh, and its variables."""
    enter = str(SOURCES / "enter_host.py")
    hosts = {host.ipv4: host.namespace.prefix for host in rack.hosts}
    variables = {"TALLY_MPI_HOSTS": json.dumps(hosts), "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0",
                 "UCX_WARN_UNUSED_ENV_VARS": "n", "OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_btl_tcp_if_include": "eth0",
                 "OMPI_MCA_oob_tcp_if_include": "eth0", "OMPI_MCA_plm_rsh_agent": enter}
    if mpi == "mpich":
        return ["-launcher", "ssh", "-launcher-exec", enter, "-iface", "eth0", "-hosts", ",".join(hosts),
                "-ppn", str(each)], variables
    return ["--host", ",".join(f"{host}:{each}" for host in hosts)], variables


@case()
def mpi_leaders_sum_for_their_hosts(lab):
    """Three ranks on each of two hosts: two workers, integers as the MPI's, in communicators of one rank a host too."""
    for mpi in RUN:
        need(f"mpicc.{mpi}", RUN[mpi][0])
    job = Job(workers=2, admit="{groups: 64, idle: 1s}")
    rack = run_rack(lab, [job], hosts=2)
    assert rack.hosts[0].ping(rack.hosts[1].ipv4)
    for mpi in RUN:
        program = compiled(lab, f"mpicc.{mpi}", "random_calls.c")
        where, variables = over_hosts(rack, mpi, 3)
        # Ranks of MPICH never sleep: six on two CPUs take a second for each call.
        calls = "60" if mpi == "openmpi" else "24"
        ranks = start(rack, job, mpi, 6, [*where, *DIES_WITH_PARENT, program, calls, "3"], {"TALLY_MPI_MIN": "0", **variables})
        taken, report = report_of(ranks, ends=mpi == "openmpi")
        assert taken > int(calls) / 6 and "nonblocking with leaders" in report and "no box" not in report, report
    rack.stop()


@case()
def mpi_from_fortran_and_python(lab):
    """`use mpi`, `use mpi_f08`, mpi4py's conjugate gradients: their sums go through the box."""
    need("mpifort.openmpi", "mpifort.mpich")
    job = Job(workers=3)
    rack = run_rack(lab, [job])
    for mpi in RUN:
        for flags in ((), ("-DF08",)):
            status = () if mpi == "openmpi" else ("-DGET_STATUS",)
            program = compiled(lab, f"mpifort.{mpi}", "sums.f90", "-cpp", *flags, *status)
            taken, report = run(rack, job, mpi, 3, [program])
            assert taken == 23, f"{mpi} {flags}: {report}"
    if pathlib.Path("/usr/lib/python3/dist-packages/mpi4py").is_dir():
        taken, report = run(rack, job, "openmpi", 3, ["/usr/bin/python3", str(SOURCES / "gradient.py")])
        assert taken == 32, report
    rack.stop()


@case()
def mpi_without_a_box(lab):
    """Nobody answers: the MPI makes the sums, and rank 0 says why; --require makes that an error."""
    need("mpicc.mpich")
    job = Job(workers=2)
    rack = run_rack(lab, [job])
    rack.stop()
    program = compiled(lab, "mpicc.mpich", "random_calls.c")
    taken, report = run(rack, job, "mpich", 2, [program, "20", "1"], {"TALLY_MPI_MIN": "0", "TALLY_JOIN_TIMEOUT": "1"})
    assert taken == 0 and "no box" in report, report
    required = rack.hosts[0].namespace.run("required", [
        str(pathlib.Path(Programs.build, "host/mpi/tally-mpi")), "--require", *RUN["mpich"], "-n", "2", program, "20", "1"],
        {"TALLY_JOB": job.name, "TALLY_SWITCH": rack.address_for(False), "TALLY_JOIN_TIMEOUT": "1", "TALLY_MPI_MIN": "0"})
    assert required.wait(60) != 0 and "the box is required" in required.complained(), required.complained()


@case()
def mpi_names_the_rank_that_died(lab):
    """kill -9 of a rank's process under MPICH: hydra ends the others, whatever they wait for."""
    need("mpicc.mpich")
    job = Job(workers=2, lease="3s")
    rack = run_rack(lab, [job])
    program = compiled(lab, "mpicc.mpich", "random_calls.c")
    running = rack.hosts[0].namespace.run("killed", [
        str(pathlib.Path(Programs.build, "host/mpi/tally-mpi")), *RUN["mpich"], "-n", "2", program, "100000000", "1"],
        {"TALLY_JOB": job.name, "TALLY_SWITCH": rack.address_for(False), "TALLY_MPI_MIN": "0"})
    rack.wait_for_log("running: generation")
    rack.hosts[0].call("pkill", "-KILL", "-n", "-f", program)
    assert running.wait() != 0
    rack.stop()
