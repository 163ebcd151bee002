# DPDK 22.11 as a target whose headers are system headers. Drivers are loaded at run time; net_ring alone has
# functions of its own that we call (tests, benchmarks), so it is linked by who needs it.
find_package(PkgConfig REQUIRED)
pkg_check_modules(dpdk IMPORTED_TARGET libdpdk>=22.11)
find_library(DPDK_NET_RING rte_net_ring)
mark_as_advanced(DPDK_NET_RING)
if(NOT dpdk_FOUND OR NOT DPDK_NET_RING)
  message(FATAL_ERROR "DPDK 22.11 with its ring driver is missing: install libdpdk-dev and librte-net-ring23 "
                      "(make deps does it)")
endif()
add_library(tally_libdpdk INTERFACE)
# Our own rings are seen by ThreadSanitizer only in their C11 form; the ABI is the same.
target_compile_definitions(tally_libdpdk INTERFACE RTE_USE_C11_MEM_MODEL=1)
target_link_libraries(tally_libdpdk INTERFACE PkgConfig::dpdk)
