find_package(nlohmann_json REQUIRED)
tally_test(perf_test SOURCES perf_values_test.cc perf_report_test.cc LABEL unit
  LINK tally_perf_parts tally_engine nlohmann_json::nlohmann_json)
tally_test(demo_test LABEL unit
  SOURCES demo_parts_test.cc demo_config_test.cc demo_process_test.cc demo_rack_test.cc
    demo_slots_test.cc
  LINK tally_demo_parts tally_config)
target_compile_definitions(demo_test PRIVATE
  TALLY_CONF_DIRECTORY="${PROJECT_SOURCE_DIR}/conf" TALLY_HUGEPAGES="${PROJECT_SOURCE_DIR}/tools/hugepages"
  TALLY_VETH_RACK="${PROJECT_SOURCE_DIR}/tools/veth-rack")
