# The parameter server as a process of its own: its engine, over a box made by hand.
tally_fewer_seeds(4 ps_random_test.cc ps_boxes_random_test.cc)
tally_test(ps_test PURE
  SOURCES ps_support.cc ps_join_test.cc ps_merge_test.cc ps_timer_test.cc ps_random_test.cc
    ps_boxes_support.cc ps_boxes_fleet.cc
    ps_boxes_member_test.cc ps_boxes_random_test.cc ps_boxes_sums_test.cc ps_boxes_timers_test.cc
  LABEL unit LINK tally_ps_engine tally_engine_testbed)
find_package(nlohmann_json REQUIRED)
tally_test(ps_program_test
  SOURCES ps_support.cc ps_boxes_support.cc ps_boxes_fleet.cc ps_program_test.cc
  LABEL unit LINK tally_ps_parts tally_engine_testbed nlohmann_json::nlohmann_json)
