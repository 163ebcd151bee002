# The pure parts of tally-bench.
find_package(nlohmann_json REQUIRED)
tally_test(load_test PURE DPDK SANITIZED
  SOURCES load_parts_test.cc load_frames_test.cc load_ledger_test.cc load_member_test.cc
    load_options_test.cc step_profile_test.cc
  LABEL unit LINK tally_load_parts tally_members_scene tally_steps nlohmann_json::nlohmann_json)
