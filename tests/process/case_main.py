"""Runs one case: a lab, the case, its logs when it failed. The command line of run_case.py and of tests/smoke."""
import argparse
import os
import resource
import signal
import sys
import time
import traceback

import lab as labs
from programs import Programs

SKIPPED = 77


def run(name, verbose):
    # A control thread that others keep from running is slow, and no failure of what a case shows.
    os.environ["TALLYCTL_TIMEOUT"] = "60"
    # An end from outside is an end like others: nothing stays behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    lab = labs.Lab()
    begun = time.monotonic()
    try:
        labs.CASES[name](lab)
        for program in lab.programs:
            said = program.complained()
            assert "Sanitizer" not in said and "runtime error:" not in said, f"a sanitizer spoke in {program.name}"
        if verbose:
            lab.print_logs()
    except labs.Skipped as reason:
        print(reason)
        return SKIPPED
    except Exception:  # pylint: disable=broad-except
        lab.print_logs()
        traceback.print_exc()
        print(f"case {name} failed after {time.monotonic() - begun:.1f} s")
        return 1
    finally:
        lab.close()
    cpu = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    print(f"case {name} passed in {time.monotonic() - begun:.1f} s, {cpu:.1f} s of CPU in its programs")
    return 0


def main(about):
    """about: the help; all cases have been imported. Returns the exit code."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--every", action="store_true", help="list what Release leaves to other builds, too")
    parser.add_argument("--verbose", action="store_true", help="print what the programs said, failed or not")
    parser.add_argument("--tallyd", default="")
    parser.add_argument("--worker", default="")
    parser.add_argument("--server", default="")
    parser.add_argument("--ctl", default="")
    parser.add_argument("--plan", default="")
    parser.add_argument("--scarce-pool", default="")
    parser.add_argument("--bench", default="")
    parser.add_argument("--cmake", default="")
    parser.add_argument("--build", default="")
    parser.add_argument("--clients", default="")
    parser.add_argument("--service", default="")
    parser.add_argument("--caller", default="")
    parser.add_argument("--original-box", default="")
    parser.add_argument("--libraries", nargs="*", default=[])
    parser.add_argument("--sanitizer", default="")
    options = parser.parse_args()
    if options.list:
        build = options.sanitizer or "release"
        print("\n".join(name + " waits" * function.waits for name, function in labs.CASES.items()
                        if build in function.builds or options.every and build == "release"))
        return 0
    if options.name not in labs.CASES:
        parser.error(f"there is no case '{options.name}'; --list names them")
    Programs.tallyd, Programs.worker = options.tallyd, options.worker
    Programs.server, Programs.bench = options.server, options.bench
    Programs.ctl, Programs.plan = options.ctl, options.plan
    Programs.clients, Programs.original_box = options.clients, options.original_box
    Programs.service, Programs.caller = options.service, options.caller
    Programs.scarce_pool, Programs.libraries = options.scarce_pool, options.libraries
    Programs.cmake, Programs.build = options.cmake, options.build
    Programs.sanitizer = options.sanitizer
    return run(options.name, options.verbose)
