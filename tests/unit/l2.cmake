# The L2 switch and the box's answers, without ports.
tally_test(tally_l2_test PURE
  SOURCES l2_arp_test.cc l2_echo_test.cc l2_forwarding_test.cc l2_neighbour_test.cc l2_table_test.cc
  LABEL unit LINK tally_l2 tally_test_support)
