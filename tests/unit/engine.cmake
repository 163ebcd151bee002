# Engines and an ideal box.
tally_library(tally_engine_testbed
  SOURCES engine_datagrams.cc engine_testbed.cc ideal_box.cc ideal_box_says.cc
  LINK tally_box_says GTest::gtest)
tally_unoptimised(tally_engine_testbed)

tally_test(engine_test PURE SANITIZED LABEL unit LINK tally_engine_testbed
  SOURCES engine_parts_test.cc engine_quantise_test.cc engine_exact_test.cc engine_join_test.cc engine_epochs_test.cc
    engine_reduce_test.cc engine_repair_test.cc engine_repair_together_test.cc engine_resend_test.cc engine_early_test.cc engine_told_test.cc
    engine_refuse_test.cc engine_end_test.cc engine_sparse_test.cc engine_sparse_runs_test.cc
    engine_slots_test.cc engine_priority_test.cc engine_straggler_test.cc engine_restart_test.cc engine_racks_test.cc)

# The same over several boxes, of which one is the home.
tally_test(engine_boxes_test PURE SANITIZED LABEL unit LINK tally_engine_testbed
  SOURCES engine_boxes_scene.cc engine_boxes_join_test.cc engine_boxes_lanes_test.cc engine_boxes_lost_test.cc
    engine_boxes_random_test.cc)

# Counts allocations, for which it replaces operator new: a program of its own.
tally_test(engine_memory_test PURE LABEL unit LINK tally_engine_testbed SOURCES engine_memory_test.cc)
