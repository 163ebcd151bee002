tally_test(daemon_test DPDK SANITIZED
  SOURCES daemon_box_test.cc daemon_control_test.cc daemon_fleet_test.cc daemon_fleet_homes_test.cc daemon_fleet_plans_test.cc daemon_planner_test.cc daemon_loop_test.cc daemon_made_test.cc daemon_notify_test.cc daemon_options_test.cc
          daemon_reload_sessions_test.cc daemon_reload_test.cc daemon_report_test.cc daemon_server_test.cc daemon_shares_test.cc
          daemon_shutdown_test.cc daemon_state_test.cc daemon_trace_test.cc daemon_watch_test.cc
  LABEL unit LINK tally_daemon tally_fake_store tally_members_scene)
target_include_directories(daemon_test SYSTEM PRIVATE ${ASIO_INCLUDE_DIR})
target_compile_definitions(daemon_test PRIVATE ASIO_STANDALONE TALLY_GOLDEN_DIRECTORY="${PROJECT_SOURCE_DIR}/tests/golden/daemon")
tally_test(daemon_cli_test SANITIZED SOURCES daemon_cli_test.cc LABEL unit)
target_compile_definitions(daemon_cli_test PRIVATE
  TALLYD="$<TARGET_FILE:tallyd>" TALLY_CONF_DIRECTORY="${PROJECT_SOURCE_DIR}/conf")
add_dependencies(daemon_cli_test tallyd)
# Replaces getrandom(): a program of its own.
tally_test(random_word_test PURE SANITIZED SOURCES random_word_test.cc LABEL unit LINK tally_random)
tally_test(auth_test PURE SANITIZED SOURCES auth_test.cc LABEL unit LINK tally_auth)
