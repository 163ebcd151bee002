tally_fewer_seeds(5 planner_random_test.cc)
tally_fewer_seeds(3 planner_fat_tree_test.cc)
pkg_check_modules(clp REQUIRED IMPORTED_TARGET clp)
tally_test(planner_test PURE
  SOURCES planner_support.cc planner_closed_form_test.cc planner_fat_tree_test.cc planner_jobs_test.cc
          planner_random_test.cc planner_replan_test.cc planner_table_test.cc planner_through_test.cc
  LABEL unit LINK tally_planner PkgConfig::clp)
