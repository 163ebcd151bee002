tally_test(config_test PURE SANITIZED
  SOURCES config_golden_test.cc config_load_test.cc config_random_test.cc config_reload_test.cc
          config_racks_test.cc config_scalars_test.cc config_session_test.cc golden_cases.cc
  LABEL unit LINK tally_config)
target_compile_definitions(config_test PRIVATE
  TALLY_GOLDEN_DIRECTORY="${PROJECT_SOURCE_DIR}/tests/golden/config"
  TALLY_CONFIG_REFERENCE="${PROJECT_SOURCE_DIR}/docs/configuration.md"
  TALLY_FIRST_STEPS="${PROJECT_SOURCE_DIR}/docs/first_steps.md"
  TALLY_CONF_DIRECTORY="${PROJECT_SOURCE_DIR}/conf")
