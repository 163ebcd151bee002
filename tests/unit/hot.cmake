tally_test(hot_test PURE SANITIZED
  SOURCES hot_agreement_test.cc hot_choice_test.cc hot_merge_test.cc hot_set_test.cc hot_sketch_test.cc
  LABEL unit LINK tally_hot_parts)
