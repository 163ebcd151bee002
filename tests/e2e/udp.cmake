# Transport 'udp' over the loopback interface of a network namespace that each process makes for itself.
tally_test(udp_transport_test
  SOURCES own_network.cc udp_transport_test.cc
  LABEL e2e LINK tally_udp)
tally_test(udp_worker_test
  SOURCES own_network.cc socket_box.cc udp_worker_test.cc
  LABEL e2e LINK tally tally_udp tally_sim)
