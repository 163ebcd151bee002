#!/usr/bin/python3
"""run_wireshark.py NAME [--cmake PROGRAM --build DIRECTORY]
   run_wireshark.py --list

Runs one case of the Wireshark dissector on captures that the case makes. Exit 0: passed; 1: failed; 77: skipped, and
the last line says why.
"""
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "process"), str(TESTS / "fixtures")]

# pylint: disable=wrong-import-position
import case_main  # noqa: E402
import cases_fields  # noqa: E402
import cases_install  # noqa: E402
import cases_links  # noqa: E402
import cases_malformed  # noqa: E402
import cases_page  # noqa: E402
import cases_switchml  # noqa: E402
import cases_values  # noqa: E402

# Importing them registers their cases.
assert cases_fields and cases_install and cases_links and cases_malformed and cases_page
assert cases_switchml and cases_values

if __name__ == "__main__":
    sys.exit(case_main.main(__doc__))
