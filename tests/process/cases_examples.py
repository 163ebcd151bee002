"""The examples, each by its one command, a few steps of it."""
import pathlib
import re
import shutil

from lab import Skipped, case
from programs import Programs
from python_ranks import PYTHON, need_torch

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def said_by(lab, example, *arguments):
    """What it printed; the two ways are about the same. Beside others the second import of torch alone has taken a minute."""
    program = lab.run(example, [PYTHON, "-B", str(EXAMPLES / example / "run"), *arguments, Programs.build])
    assert program.wait(600) == 0, program.complained()
    apart = re.search(r"are at most (\S+) apart", program.said())
    assert apart and float(apart[1].rstrip(",")) <= 1e-5, program.said()
    return program.said() + program.complained()


@case()
def example_of_ddp(lab):
    need_torch()
    if not pathlib.Path("/usr/share/datasets/fashion-mnist").is_dir():
        raise Skipped("dataset-fashion-mnist is not installed (make deps-frameworks)")
    said = said_by(lab, "ddp", "--steps", "8", "--judged", "500", "--ways", "gloo,box,bfloat16")
    assert said.count("tally: 100.0 %") == 2, said


@case()
def example_of_skipgrams(lab):
    need_torch()
    assert "tally: 100.0 %" in said_by(lab, "skipgram", "--steps", "20")


@case()
def example_of_a_table(lab):
    """Rows on servers: hot ones through the box or all cold, the losses are the same."""
    need_torch()
    said = said_by(lab, "skipgram", "--table", "--steps", "20")
    hot = [int(word.replace(",", "")) for word in re.findall(r"([\d,]+) of [\d,]+ pushed rows were hot", said)]
    assert len(hot) == 2 and hot[0] == 0 < hot[1], said


@case()
def example_of_mpi(lab):
    built = [mpi for mpi in ("openmpi", "mpich") if shutil.which(f"mpicc.{mpi}") and
             pathlib.Path(Programs.build, f"host/mpi/libtally_mpi_{mpi}.so").exists()]
    if not built:
        raise Skipped("the build has no tally-mpi (make deps-frameworks)")
    for mpi in built:
        assert "tally-mpi: 3 sums" in said_by(lab, "mpi", "--mpi", mpi, "--steps", "3")
