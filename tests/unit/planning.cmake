tally_test(planning_test PURE SANITIZED
  SOURCES planning_comeback_test.cc planning_desk_test.cc planning_desk_fleet_test.cc planning_plan_test.cc
  LABEL unit LINK tally_planning)
