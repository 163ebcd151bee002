# The pure parts of the daemon's loop; nothing here starts EAL.
tally_test(tally_io_test DPDK LABEL unit LINK tally_io tally_test_support
  SOURCES io_headers_test.cc io_idle_test.cc io_publication_test.cc l2_threads_test.cc)
