tally_test(fleet_test PURE SANITIZED
  SOURCES fleet_homes_test.cc fleet_member_test.cc fleet_store_test.cc fleet_view_test.cc
  LABEL unit LINK tally_fleet tally_fake_store tally_test_support)
tally_fewer_seeds(10 fleet_random_test.cc fleet_records_test.cc)
tally_test(fleet_random_test PURE SOURCES fleet_random_test.cc fleet_records_test.cc
  LABEL unit LINK tally_fleet tally_fake_store tally_test_support)
