# Ports, pools and mbufs on virtual devices. One EAL per process, so one entry of ctest.
add_executable(tally_memif_visitor dpdk_visitor.cc)
target_link_libraries(tally_memif_visitor PRIVATE tally_dpdk tally_warnings)
add_executable(tally_dpdk_port_test
  dpdk_port_test.cc dpdk_mbuf_test.cc dpdk_memif_test.cc dpdk_door_test.cc dpdk_testbed.cc pool_audit.cc)
target_compile_definitions(tally_dpdk_port_test PRIVATE
  TALLY_MEMIF_VISITOR="$<TARGET_FILE:tally_memif_visitor>")
add_dependencies(tally_dpdk_port_test tally_memif_visitor)
target_link_libraries(tally_dpdk_port_test PRIVATE
  tally_dpdk ${DPDK_NET_RING} GTest::gmock GTest::gtest_main tally_warnings)
tally_unoptimised(tally_dpdk_port_test)
tally_precompiled(tally_dpdk_port_test tally_precompiled_dpdk)
add_test(NAME dpdk_port COMMAND tally_dpdk_port_test)
set_tests_properties(dpdk_port PROPERTIES LABELS e2e TIMEOUT 300
  ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan_suppressions.txt")

# Ports of the kernel, in a network namespace of the test's own. Exit code 77: this user may not make one.
add_executable(tally_dpdk_kernel_test
  dpdk_kernel_packet_test.cc dpdk_kernel_xdp_test.cc dpdk_kernel_tap_test.cc dpdk_kernel_bed.cc dpdk_namespace.cc
  dpdk_testbed.cc pool_audit.cc)
target_link_libraries(tally_dpdk_kernel_test PRIVATE tally_dpdk GTest::gmock GTest::gtest_main tally_warnings)
tally_unoptimised(tally_dpdk_kernel_test)
tally_precompiled(tally_dpdk_kernel_test tally_precompiled_dpdk)
add_test(NAME dpdk_kernel COMMAND tally_dpdk_kernel_test)
set_tests_properties(dpdk_kernel PROPERTIES
  ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan_suppressions.txt")
add_test(NAME dpdk_kernel_hugepages COMMAND tally_dpdk_kernel_test
  "--gtest_filter=*.FramesOfEverySizeArriveWholeBothWays:AfXdp.OneMbufLeavesOnSeveralPortsAndOutlivesAll")
set_tests_properties(dpdk_kernel_hugepages PROPERTIES
  ENVIRONMENT "TALLY_TEST_HUGEPAGES=1;TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan_suppressions.txt")
set_tests_properties(dpdk_kernel dpdk_kernel_hugepages PROPERTIES LABELS e2e TIMEOUT 300 SKIP_RETURN_CODE 77)
