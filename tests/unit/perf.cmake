find_package(nlohmann_json REQUIRED)
tally_test(perf_test SANITIZED SOURCES perf_values_test.cc perf_report_test.cc LABEL unit
  LINK tally_perf_parts tally_engine nlohmann_json::nlohmann_json)
