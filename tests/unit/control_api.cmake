tally_test(control_api_test PURE SANITIZED
  SOURCES control_api_methods_test.cc control_api_plan_test.cc control_api_request_test.cc control_api_results_test.cc
  LABEL unit LINK tally_control_api)
target_compile_definitions(control_api_test PRIVATE
  TALLY_DROPS_PAGE="${PROJECT_SOURCE_DIR}/docs/drops.md" TALLY_CTL_PAGE="${PROJECT_SOURCE_DIR}/docs/tallyctl.md")
tally_test(ctl_test PURE SANITIZED SOURCES ctl_command_test.cc ctl_connection_test.cc ctl_pages_test.cc ctl_top_test.cc ctl_trace_test.cc LABEL unit LINK tally_ctl tally_control_api)
target_compile_definitions(ctl_test PRIVATE TALLY_CTL_FOLDER="${PROJECT_SOURCE_DIR}/control/ctl")
tally_test(doctor_test PURE SANITIZED SOURCES doctor_test.cc LABEL unit LINK tally_doctor)
