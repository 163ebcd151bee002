# The daemon's loop on DPDK's ring ports. The tests need EAL, which starts once per process: one entry of ctest.
add_library(tally_loop_rack OBJECT
  loop_cable.cc loop_control.cc loop_eal.cc loop_host.cc loop_packets.cc loop_rack.cc loop_worker.cc pool_audit.cc)
target_include_directories(tally_loop_rack PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
# Drivers are not among pkg-config's libraries.
target_link_libraries(tally_loop_rack PUBLIC
  tally_io tally_sim tally_members tally_engine ${DPDK_NET_RING} GTest::gmock GTest::gtest tally_warnings)
# loop_cable.cc answers for net_ring.
target_link_options(tally_loop_rack PUBLIC -Wl,--wrap=rte_eth_dev_info_get)

add_executable(tally_loop_test
  loop_beside_test.cc loop_core_test.cc loop_external_test.cc loop_faults_test.cc loop_impair_test.cc loop_server_rig.cc
  loop_server_test.cc loop_sums_test.cc loop_switch_impair_test.cc loop_switch_rig.cc loop_switch_test.cc loop_threads_test.cc)
target_link_libraries(tally_loop_test PRIVATE tally_loop_rack GTest::gtest_main)
tally_quick_to_compile(tally_loop_test DPDK)
add_test(NAME loop COMMAND tally_loop_test)
set_tests_properties(loop PROPERTIES
  LABELS e2e TIMEOUT 300 SKIP_REGULAR_EXPRESSION "SKIPPED \\] [1-9]")

# That ThreadSanitizer sees through DPDK: a planted race must be reported.
if(TALLY_SANITIZE STREQUAL "thread")
  add_executable(tally_loop_race loop_race.cc)
  target_link_libraries(tally_loop_race PRIVATE tally_loop_rack)
  add_test(NAME loop_race_is_reported COMMAND tally_loop_race)
  set_tests_properties(loop_race_is_reported PROPERTIES
    LABELS e2e TIMEOUT 60 SKIP_RETURN_CODE 77 PASS_REGULAR_EXPRESSION "WARNING: ThreadSanitizer: data race")
endif()
