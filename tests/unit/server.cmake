# The parameter server's merge engine; nothing of the pipeline's code is linked.
tally_test(server_test PURE SANITIZED SOURCES server_merge_test.cc server_memory_test.cc LABEL unit LINK tally_server)
tally_fewer_seeds(4 server_random_test.cc)
tally_test(server_random_test PURE SOURCES server_random_test.cc LABEL unit LINK tally_server)

# The queue towards external servers.
tally_test(server_queue_test PURE SANITIZED SOURCES server_queue_test.cc server_queue_random_test.cc
  LABEL unit LINK tally_server tally_test_support)
