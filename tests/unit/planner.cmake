# Networks, and what judges a plan. Benchmarks have them, too.
pkg_check_modules(clp REQUIRED IMPORTED_TARGET GLOBAL clp)
tally_library(tally_planner_scene SOURCES planner_support.cc LINK tally_planner PkgConfig::clp)
tally_unhurried(tally_planner_scene)

tally_test(planner_test PURE SANITIZED
  SOURCES planner_closed_form_test.cc planner_jobs_test.cc planner_replan_test.cc planner_table_test.cc planner_through_test.cc
  LABEL unit LINK tally_planner_scene)

tally_fewer_seeds(5 planner_random_test.cc)
tally_fewer_seeds(3 planner_fat_tree_test.cc)
tally_test(planner_random_test PURE SOURCES planner_fat_tree_test.cc planner_random_test.cc LABEL unit LINK tally_planner_scene)
