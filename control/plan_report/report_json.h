#pragma once
// A report as JSON: the rows of jobs[] of `tally-plan show --json`, and of plan.show of the control interface. Pure.

#include <cstddef>
#include <nlohmann/json.hpp>

#include "plan_report/report.h"

namespace tally::plan_report {

inline constexpr std::size_t kEveryLoad = ~std::size_t{0};

// most_loads: the fullest so many; more_loads says how many it leaves out.
[[nodiscard]] nlohmann::ordered_json to_json(const JobReport& job, std::size_t most_loads = kEveryLoad);
[[nodiscard]] nlohmann::ordered_json loads_json(const std::vector<Load>& loads, std::size_t most = kEveryLoad);

// The other way round, of an answer that may be another version's: what is not there, or of another type, is as in an
// empty report.
[[nodiscard]] JobReport report_of(const nlohmann::ordered_json& json);

}  // namespace tally::plan_report
