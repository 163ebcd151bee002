# The worker's transport 'dpdk' against boxes in this process and in others.
add_library(tally_transport_harness STATIC
  ${CMAKE_CURRENT_LIST_DIR}/fake_box.cc ${CMAKE_CURRENT_LIST_DIR}/pool_audit.cc
  ${CMAKE_CURRENT_LIST_DIR}/transport_harness.cc)
target_include_directories(tally_transport_harness PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(tally_transport_harness PUBLIC
  tally_worker_dpdk GTest::gmock PRIVATE tally_warnings)

add_executable(tally_echo_box ${CMAKE_CURRENT_LIST_DIR}/echo_box.cc)
target_link_libraries(tally_echo_box PRIVATE tally_transport_harness tally_warnings)

# One EAL per process, so one process per file and one entry of ctest.
foreach(group parse frames reconnect kernel report)
  set(name tally_transport_${group}_test)
  add_executable(${name} ${CMAKE_CURRENT_LIST_DIR}/transport_${group}_test.cc)
  target_compile_definitions(${name} PRIVATE TALLY_ECHO_BOX="$<TARGET_FILE:tally_echo_box>")
  target_link_libraries(${name} PRIVATE tally_transport_harness GTest::gtest_main tally_warnings)
  tally_unoptimised(${name})
  tally_precompiled(${name} tally_precompiled_dpdk)
  add_dependencies(${name} tally_echo_box)
  add_test(NAME transport_${group} COMMAND ${name})
  set_tests_properties(transport_${group} PROPERTIES LABELS e2e TIMEOUT 300)
endforeach()
if(TALLY_SANITIZE STREQUAL "thread")
  target_compile_definitions(tally_transport_reconnect_test PRIVATE TALLY_UNDER_TSAN)
endif()
# On the kernel's interfaces, in a network namespace of its own. Exit code 77: this user may not make one.
target_sources(tally_transport_kernel_test PRIVATE dpdk_namespace.cc)
set_tests_properties(transport_kernel PROPERTIES SKIP_RETURN_CODE 77)

# The other end for tests of bench/switchml's program (tests/process).
if(TALLY_SANITIZE STREQUAL "thread")
  set(unused EXCLUDE_FROM_ALL)  # it has one thread
endif()
add_executable(tally_original_box ${unused} ${CMAKE_CURRENT_LIST_DIR}/original_box.cc)
target_link_libraries(tally_original_box PRIVATE tally_transport_harness tally_client_rack tally_warnings)
