"""The Python package: ranks are python's, over memif."""
import pathlib
import signal

from box import Job, run_box
from lab import Skipped, case
from programs import Programs

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent / "python"
PYTHON = "/usr/bin/python3"


def why_not():
    if not list(pathlib.Path(Programs.build, "host/python/tally").glob("_tally.*.so")):
        return "the Python package was not built: python3-dev or pybind11-dev is missing"
    return ""


def package():
    """What finds the package."""
    return {"PYTHONPATH": str(pathlib.Path(Programs.build, "host/python")), "PYTHONDONTWRITEBYTECODE": "1"}


def rank_of(box, job, rank, script, *arguments, environment=None):
    """A rank of a job: a script of tests/python."""
    port = job.first_port + rank
    variables = {"TALLY_JOB": job.name, "TALLY_RANK": str(rank), "TALLY_WORLD": str(job.workers),
                 "TALLY_SWITCH": box.address(), "TALLY_ADDRESS": box.address_of(port),
                 "TALLY_TRANSPORT": box.device_of(port), "TALLY_JOIN_TIMEOUT": "30", **package(), **(environment or {})}
    return box.lab.run(f"{job.name}.{rank}", [PYTHON, str(SCRIPTS / script), *arguments], variables)


def run_ranks(lab, script, *arguments, workers=2, **options):
    """A box and all ranks of a job; they print 'all good' and end well, but those that the case names."""
    why = why_not()
    if why:
        raise Skipped(why)
    job = Job(workers=workers, lease="3s")
    box = run_box(lab, [job], **options)
    return box, [rank_of(box, job, rank, script, *arguments) for rank in range(workers)]


def expect_good(programs, seconds=60):
    for program in programs:
        code = program.wait(seconds)
        assert code == 0 and "all good" in program.said(), f"{program.name} ended with {code}:\n{program.complained()}"


@case()
def python_sums_and_mistakes(lab):
    """All that the package does, over a box that loses frames."""
    box, ranks = run_ranks(lab, "sums.py", "everything", workers=3, loss="1%")
    expect_good(ranks)
    box.stop()


@case()
def python_wait_is_interrupted(lab):
    """Ctrl-C gets through, and the other rank hears why the job ended."""
    _, ranks = run_ranks(lab, "sums.py", "interrupted")
    expect_good(ranks[1:])
    assert ranks[0].process.wait(20) == -signal.SIGINT, ranks[0].complained()


@case()
def python_ends_with_pending_work(lab):
    """The interpreter's end is bounded, and no rank is left waiting."""
    _, ranks = run_ranks(lab, "sums.py", "ends_with_pending_work")
    expect_good(ranks, 20)


@case()
def python_leaves_at_exit(lab):
    """Two programs that just end have left the job in order."""
    box, ranks = run_ranks(lab, "sums.py", "leaves_by_itself")
    expect_good(ranks, 20)
    assert box.stop().jobs["job"]["phase"] == "ended"
