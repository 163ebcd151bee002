#pragma once
// A report as JSON: the rows of jobs[] of `tally-plan show --json`, and of plan.show of the control interface. Pure.

#include <nlohmann/json.hpp>

#include "plan_report/report.h"

namespace tally::plan_report {

// every_load: else fullest_of() them, and more_loads says how many that leaves out.
[[nodiscard]] nlohmann::ordered_json to_json(const JobReport& job, bool every_load);
[[nodiscard]] nlohmann::ordered_json loads_json(const std::vector<Load>& loads);

// The other way round, of an answer that may be another version's: what is not there, or of another type, is as in an
// empty report.
[[nodiscard]] JobReport report_of(const nlohmann::ordered_json& json);

}  // namespace tally::plan_report
