#!/usr/bin/python3
"""run_case.py NAME --tallyd FILE --worker FILE --server FILE --ctl FILE --plan FILE --scarce-pool FILE --bench FILE --clients FILE
     --original-box FILE --libraries FILE... --build DIRECTORY [--sanitizer address|thread] [--verbose]
   run_case.py --list [--sanitizer ...]

Runs one case of whole processes: tallyd and workers over memif. Exit 0: passed; 1: failed; 77: skipped, and the
last line says why. --list prints the names of the cases that run under the sanitizer (all without one).
"""
import sys

import case_main
import cases_bench
import cases_control
import cases_demo
import cases_etcd
import cases_examples
import cases_faults
import cases_fleet
import cases_http
import cases_kv
import cases_members
import cases_observe
import cases_operation
import cases_page
import cases_plan
import cases_python
import cases_reload
import cases_server
import cases_service
import cases_session
import cases_shared
import cases_start
import cases_state
import cases_sums
import cases_switchml
import cases_systemd
import cases_tools
import cases_torch

# Importing them registers their cases.
assert (cases_bench and cases_control and cases_demo and cases_etcd and cases_examples and cases_faults and cases_fleet and cases_http and cases_kv and cases_members and cases_operation and cases_page and cases_plan and cases_python and cases_reload
        and cases_server and cases_service and cases_session and cases_shared and cases_start and cases_state and cases_sums and cases_switchml
        and cases_systemd and cases_tools and cases_torch)

if __name__ == "__main__":
    sys.exit(case_main.main(__doc__))
