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
  loop_server_test.cc loop_session_test.cc loop_sums_test.cc loop_switch_impair_test.cc loop_switch_rig.cc loop_switch_test.cc loop_threads_test.cc loop_trace_test.cc)
target_link_libraries(tally_loop_test PRIVATE tally_loop_rack GTest::gtest_main)
tally_unoptimised(tally_loop_test)
tally_precompiled(tally_loop_test tally_precompiled_dpdk)
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

# What a data core asks of the kernel, of allocators and of locks. Not under sanitizers: malloc is theirs, and they make
# calls of their own.
if(NOT TALLY_SANITIZE)
  add_library(tally_core_calls OBJECT call_watch.cc watched_functions.cc core_calls_rig.cc core_calls_ends.cc loop_eal.cc)
  target_include_directories(tally_core_calls PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/bench/loop)
  target_link_libraries(tally_core_calls PUBLIC
    tally_io tally_traffic ${DPDK_NET_RING} ${CMAKE_DL_LIBS} GTest::gmock GTest::gtest tally_warnings)

  add_executable(tally_core_calls_test core_calls_test.cc loop_cable.cc)
  target_link_libraries(tally_core_calls_test PRIVATE tally_core_calls GTest::gtest_main)
  target_link_options(tally_core_calls_test PRIVATE -Wl,--wrap=rte_eth_dev_info_get)
  # In a namespace of its own; exit code 77: this user may not make one.
  add_executable(tally_core_calls_kernel_test core_calls_kernel_test.cc dpdk_namespace.cc)
  target_link_libraries(tally_core_calls_kernel_test PRIVATE tally_core_calls GTest::gtest_main)
  # So that libraries and drivers call what watches them.
  set_target_properties(tally_core_calls_test tally_core_calls_kernel_test PROPERTIES ENABLE_EXPORTS ON)
  add_test(NAME core_calls COMMAND tally_core_calls_test)
  add_test(NAME core_calls_kernel COMMAND tally_core_calls_kernel_test)
  set_tests_properties(core_calls core_calls_kernel PROPERTIES
    LABELS e2e TIMEOUT 300 SKIP_RETURN_CODE 77 SKIP_REGULAR_EXPRESSION "SKIPPED \\] [1-9]")
endif()
