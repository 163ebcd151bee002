"""MPI programs over a box: all ranks on one host, by both MPIs."""
import pathlib
import re
import shutil

from box import Job
from lab import Skipped, case
from programs import Programs
from rack import run_rack

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "mpi"
# Open MPI: as root, with more ranks than CPUs, and by shared memory where namespaces have no name service.
RUN = {"openmpi": ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "btl", "self,vader"],
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


def run(rack, job, mpi, ranks, command, environment=None, box=True):
    """What rank 0 said, and the report."""
    host = rack.hosts[0]
    host.namespace.ip("link set lo up")
    variables = {"TALLY_JOB": job.name, "TALLY_SWITCH": rack.address_for(False), "TALLY_JOIN_TIMEOUT": "30",
                 "TALLY_DEBUG": "INFO", **(environment or {})}
    shim = [str(pathlib.Path(Programs.build, "host/mpi/tally-mpi"))] if box else []
    program = host.namespace.run(f"{mpi}{ranks}", [*shim, *RUN[mpi], "-n", str(ranks), *command], variables)
    code = program.wait(200)
    assert code == 0 and "all good" in program.said(), f"{program.name} ended with {code}:\n{program.said()}{program.complained()}"
    report = re.search(r"tally-mpi: (\d+) sums of .*", program.complained())
    return int(report[1]) if report else 0, report[0] if report else program.complained()


def random_calls(lab, mpi, calls):
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
    random_calls(lab, "mpich", 200)


@case()
def mpi_from_fortran_and_python(lab):
    """`use mpi`, `use mpi_f08`, mpi4py's conjugate gradients: their sums go through the box."""
    need("mpifort.openmpi", "mpifort.mpich")
    job = Job(workers=3)
    rack = run_rack(lab, [job])
    for mpi in RUN:
        for flags in ((), ("-DF08",)):
            program = compiled(lab, f"mpifort.{mpi}", "sums.f90", "-cpp", *flags)
            taken, report = run(rack, job, mpi, 3, [program])
            # MPICH's mpi_f08 calls nothing that a library could stand in front of: it works, without the box.
            assert taken == (0 if mpi == "mpich" and flags else 3), f"{mpi} {flags}: {report}"
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
    assert running.wait(30) != 0
    rack.stop()
