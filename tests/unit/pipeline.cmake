tally_test(tally_pipeline_test
  SOURCES pipeline_differential_test.cc pipeline_hazard_test.cc pipeline_fit_test.cc
  LABEL unit LINK tally_test_support)
