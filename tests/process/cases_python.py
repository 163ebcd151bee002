"""The Python package: ranks are python's, over memif."""
import signal

from box import Job, run_box
from lab import Skipped, case
from python_ranks import expect_good, rank_of, why_not


def run_ranks(lab, script, *arguments, workers=2, **options):
    """A box and all ranks of a job; they print 'all good' and end well, but those that the case names."""
    why = why_not()
    if why:
        raise Skipped(why)
    job = Job(workers=workers, lease="3s")
    box = run_box(lab, [job], **options)
    return box, [rank_of(box, job, rank, script, *arguments) for rank in range(workers)]


@case(waits=True)
def python_sums_and_mistakes(lab):
    """All that the package does, over a box that loses frames."""
    box, ranks = run_ranks(lab, "sums.py", "everything", workers=3, loss="1%")
    expect_good(ranks)
    box.stop()


@case(waits=True)
def python_wait_is_interrupted(lab):
    """Ctrl-C gets through, and the other rank hears why the job ended."""
    _, ranks = run_ranks(lab, "sums.py", "interrupted")
    expect_good(ranks[1:])
    assert ranks[0].process.wait(60) == -signal.SIGINT, ranks[0].complained()


@case(waits=True)
def python_ends_with_pending_work(lab):
    """The interpreter's end is bounded, and no rank is left waiting."""
    _, ranks = run_ranks(lab, "sums.py", "ends_with_pending_work")
    expect_good(ranks)


@case(waits=True)
def python_ends_beside_waiting_threads(lab):
    """Daemon threads in the middle of a call do not end the process by a signal."""
    _, ranks = run_ranks(lab, "sums.py", "ends_beside_waiting_threads")
    expect_good(ranks)


@case()
def python_leaves_at_exit(lab):
    """Two programs that just end have left the job in order."""
    box, ranks = run_ranks(lab, "sums.py", "leaves_by_itself")
    expect_good(ranks)
    assert box.stop().jobs["job"]["phase"] == "ended"
