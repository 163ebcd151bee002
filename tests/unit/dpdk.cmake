# What dataplane/dpdk computes without EAL; the rest of it is in tests/e2e.
tally_test(dpdk_test DPDK
  SOURCES dpdk_eal_test.cc dpdk_pools_test.cc dpdk_flow_rules_test.cc
  LABEL unit LINK tally_dpdk)
