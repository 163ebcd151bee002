tally_test(plan_tool_test PURE SANITIZED
  SOURCES plan_tool_answers_test.cc plan_tool_command_test.cc plan_tool_planned_test.cc plan_tool_purchase_test.cc
  LABEL unit LINK tally_plan_tool)
target_compile_definitions(plan_tool_test PRIVATE
  TALLY_PLAN_TOOL_FOLDER="${PROJECT_SOURCE_DIR}/control/plan_tool"
  TALLY_PLANNING_PAGE="${PROJECT_SOURCE_DIR}/docs/fleet_planning.md"
  TALLY_CONF_DIRECTORY="${PROJECT_SOURCE_DIR}/conf")
