tally_fewer_seeds(5 pipeline_differential_test.cc)
tally_fewer_seeds(25 pipeline_occupancy_test.cc)
tally_fewer_seeds(10 pipeline_plan_lives_test.cc)
tally_test(tally_pipeline_test PURE
  SOURCES pipeline_differential_test.cc pipeline_hazard_test.cc pipeline_fit_test.cc pipeline_hot_keys_test.cc random_packets.cc
          pipeline_shared_claim_test.cc pipeline_shared_swap_test.cc pipeline_hash_test.cc
          pipeline_external_test.cc pipeline_occupancy_test.cc pipeline_session_conformance_test.cc
          pipeline_session_lives_test.cc pipeline_session_random_test.cc pipeline_session_test.cc
          pipeline_plan_test.cc pipeline_plan_lives_test.cc pipeline_rack_test.cc pipeline_rack_questions_test.cc
          pipeline_rate_test.cc pipeline_straggler_test.cc pipeline_sparse_test.cc pipeline_template_test.cc plan_test.cc shared_slots_test.cc source_limiter_test.cc
  LABEL unit LINK tally_test_support tally_fit_programs)
