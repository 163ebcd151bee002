#!/usr/bin/python3
"""run_smoke.py NAME --tallyd FILE --worker FILE --server FILE --clients FILE --build DIRECTORY [--sanitizer address|thread] [--verbose]
   run_smoke.py --list [--sanitizer ...]

Runs one case on real kernel interfaces: tallyd in a network namespace, hosts in others. Exit 0: passed; 1: failed;
77: skipped, and the last line says why. --list prints the names of the cases that run under the sanitizer.
"""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "process"))

# pylint: disable=wrong-import-position
import case_main  # noqa: E402
import cases_boxes  # noqa: E402
import cases_mpi  # noqa: E402
import cases_page  # noqa: E402
import cases_ports  # noqa: E402
import cases_client  # noqa: E402
import cases_floods  # noqa: E402
import cases_rules  # noqa: E402
import cases_sessions  # noqa: E402
import cases_sockets  # noqa: E402
import cases_switch  # noqa: E402
import cases_training  # noqa: E402
import cases_units  # noqa: E402
import cases_trouble  # noqa: E402
import cases_wireshark  # noqa: E402

# Importing them registers their cases.
assert (cases_boxes and cases_mpi and cases_page and cases_ports and cases_rules and cases_client and cases_floods and cases_sessions and cases_sockets and cases_switch
        and cases_training and cases_trouble and cases_units and cases_wireshark)

if __name__ == "__main__":
    sys.exit(case_main.main(__doc__))
