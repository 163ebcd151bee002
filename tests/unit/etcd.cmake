tally_test(etcd_test PURE
  SOURCES etcd_messages_test.cc etcd_settings_test.cc
  LABEL unit LINK tally_etcd tally_test_support)
tally_fewer_seeds(10 etcd_messages_test.cc)
