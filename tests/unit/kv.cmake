# Keys and values on servers: the pure parts; and whole systems in one process, over loopback.
tally_test(kv_parts_test PURE SANITIZED
  SOURCES kv_parts_test.cc kv_rendezvous_test.cc kv_rows_test.cc kv_table_clock_test.cc kv_table_state_test.cc kv_table_moves_test.cc
  LABEL unit LINK tally_kv_parts)
tally_fewer_seeds(10 kv_random_test.cc)
tally_test(kv_test
  SOURCES kv_system.cc kv_app_test.cc kv_trouble_test.cc kv_random_test.cc
  LABEL unit LINK tally_kv_server tally_kv)
tally_test(kv_table_test
  SOURCES kv_system.cc kv_table_system.cc kv_hot_rows_test.cc kv_table_called_test.cc kv_table_late_test.cc
          kv_table_review_test.cc kv_table_test.cc
  LABEL unit LINK tally_kv_table tally_kv_server tally_kv)
