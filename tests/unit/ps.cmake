# The parameter server as a process of its own: its engine, over a box made by hand; or over several.
tally_library(tally_ps_scene SOURCES ps_support.cc ps_boxes_support.cc ps_boxes_fleet.cc
  LINK tally_ps_engine tally_engine_testbed)
tally_unoptimised(tally_ps_scene)

tally_test(ps_test PURE SANITIZED
  SOURCES ps_join_test.cc ps_merge_test.cc ps_timer_test.cc
    ps_boxes_member_test.cc ps_boxes_sums_test.cc ps_boxes_timers_test.cc
  LABEL unit LINK tally_ps_scene)

tally_fewer_seeds(4 ps_random_test.cc ps_boxes_random_test.cc)
tally_test(ps_random_test PURE SOURCES ps_random_test.cc ps_boxes_random_test.cc LABEL unit LINK tally_ps_scene)

find_package(nlohmann_json REQUIRED)
tally_test(ps_program_test SANITIZED SOURCES ps_program_test.cc
  LABEL unit LINK tally_ps_parts tally_ps_scene nlohmann_json::nlohmann_json)
