"""Ranks that are python's: where the package is, a rank of a job, and whether torch is there."""
import pathlib
import subprocess

from lab import Skipped
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


def variables_of(box, job, rank):
    port = job.first_port + rank
    return {"TALLY_JOB": job.name, "TALLY_RANK": str(rank), "TALLY_WORLD": str(job.workers),
            "TALLY_SWITCH": box.address(), "TALLY_ADDRESS": box.address_of(port),
            "TALLY_TRANSPORT": box.device_of(port), "TALLY_JOIN_TIMEOUT": "120", **package()}


def rank_of(box, job, rank, script, *arguments, environment=None):
    """A rank of a job: a script of tests/python."""
    return box.lab.run(f"{job.name}.{rank}", [PYTHON, str(SCRIPTS / script), *arguments],
                       {**variables_of(box, job, rank), **(environment or {})})


def expect_good(programs, seconds=240):
    for program in programs:
        code = program.wait(seconds)
        assert code == 0 and "all good" in program.said(), f"{program.name} ended with {code}:\n{program.complained()}"


def need_torch():
    why = why_not()
    if not why and subprocess.run([PYTHON, "-c", "import torch.distributed"], capture_output=True, check=False).returncode:
        why = "python3-torch is not installed (make deps-frameworks)"
    if why:
        raise Skipped(why)
