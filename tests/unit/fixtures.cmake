# The packet fixtures (tests/fixtures): the pipeline keeps them, and they are what their generator writes.
tally_test(pipeline_fixtures_test PURE
  SOURCES pipeline_fixtures_test.cc fixture_file.cc fixture_run.cc
  LABEL unit
  LINK tally_test_support)
target_compile_definitions(pipeline_fixtures_test PRIVATE
  TALLY_FIXTURE_DIRECTORY="${PROJECT_SOURCE_DIR}/tests/fixtures")

add_test(NAME fixtures_are_what_their_generator_writes
  COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tests/fixtures/make_fixtures.py --check)
set_tests_properties(fixtures_are_what_their_generator_writes PROPERTIES LABELS unit TIMEOUT 300)
