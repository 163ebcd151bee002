# Boxes' membership on a bench. Benchmarks drive it, too: so it is optimised, and with it what of the product is inline.
tally_library(tally_members_scene
  SOURCES members_support.cc members_boxes_support.cc members_racks_support.cc
  LINK tally_members tally_test_peer GTest::gtest)
tally_unhurried(tally_members_scene)

tally_test(members_test PURE SANITIZED LABEL unit LINK tally_members_scene
  SOURCES members_packets_test.cc members_forming_test.cc members_running_test.cc members_ending_test.cc members_leases_test.cc
    members_recovery_test.cc members_slots_test.cc members_shared_test.cc members_groups_test.cc members_change_test.cc
    members_division_test.cc members_resize_test.cc members_preemption_test.cc members_server_test.cc
    members_server_return_test.cc members_sessions_test.cc members_life_test.cc
    members_boxes_home_test.cc members_boxes_takeover_test.cc members_boxes_guest_test.cc members_boxes_guest_epochs_test.cc
    members_boxes_room_test.cc
    members_racks_forming_test.cc members_racks_parent_test.cc members_racks_running_test.cc members_racks_doubt_test.cc)

tally_fewer_seeds(5 members_random_test.cc members_boxes_random_test.cc members_racks_random_test.cc)
tally_test(members_random_test PURE LABEL unit LINK tally_members_scene
  SOURCES members_random_test.cc members_boxes_random_test.cc members_racks_random_test.cc)
