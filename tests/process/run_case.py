#!/usr/bin/python3
"""run_case.py NAME --tallyd FILE --worker FILE --server FILE --scarce-pool FILE --libraries FILE... [--sanitizer address|thread]
     [--verbose]
   run_case.py --list [--sanitizer ...]

Runs one case of whole processes: tallyd and workers over memif. Exit 0: passed; 1: failed; 77: skipped, and the
last line says why. --list prints the names of the cases that run under the sanitizer (all without one).
"""
import argparse
import sys
import time
import traceback

import cases_faults
import cases_members
import cases_operation
import cases_reload
import cases_server
import cases_shared
import cases_sums
import lab as labs
from programs import Programs

# Importing them registers their cases.
assert (cases_faults and cases_members and cases_operation and cases_reload and cases_server and cases_shared
        and cases_sums)

SKIPPED = 77


def run(name, verbose):
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
    print(f"case {name} passed in {time.monotonic() - begun:.1f} s")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="print what the programs said, failed or not")
    parser.add_argument("--tallyd", default="")
    parser.add_argument("--worker", default="")
    parser.add_argument("--server", default="")
    parser.add_argument("--scarce-pool", default="")
    parser.add_argument("--libraries", nargs="*", default=[])
    parser.add_argument("--sanitizer", default="")
    options = parser.parse_args()
    if options.list:
        print("\n".join(name for name, function in labs.CASES.items()
                        if not options.sanitizer or options.sanitizer in function.sanitizers))
        return 0
    if options.name not in labs.CASES:
        parser.error(f"there is no case '{options.name}'; --list names them")
    Programs.tallyd, Programs.worker = options.tallyd, options.worker
    Programs.server = options.server
    Programs.scarce_pool, Programs.libraries = options.scarce_pool, options.libraries
    Programs.sanitizer = options.sanitizer
    return run(options.name, options.verbose)


if __name__ == "__main__":
    sys.exit(main())
