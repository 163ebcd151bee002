# What transport 'udp' computes without a socket; the rest of it is in tests/e2e.
tally_test(udp_test PURE SOURCES udp_parts_test.cc LABEL unit LINK tally_udp)
