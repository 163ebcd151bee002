# Only where gRPC is.
if(TARGET tally_switchml)
  tally_test(switchml_service_test PURE
    SOURCES switchml_service_config_test.cc switchml_service_link_test.cc
    LABEL unit LINK tally_switchml)
  target_compile_definitions(switchml_service_test PRIVATE
    TALLY_CONF_DIRECTORY="${PROJECT_SOURCE_DIR}/conf" TALLY_SWITCHML_PAGE="${PROJECT_SOURCE_DIR}/docs/switchml.md")
endif()
