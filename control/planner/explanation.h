#pragma once
// Why a plan is as it is, for people and programs that ask: rate, what is full, how full everything is, what others do.

#include <optional>
#include <string>
#include <vector>

#include "plan_report/report.h"
#include "planner/baselines.h"

namespace tally::planner {

// all_loads: of all jobs, this one too. capacity: what each resource can take of them together; of a box what its slot
// memory carries, if that is less. baselines: beside the same other jobs; empty: nothing is compared.
[[nodiscard]] plan_report::JobReport explain(const Topology& topology, const Job& job, const Plan& plan,
                                             const Rates& capacity, const Rates& all_loads,
                                             const std::optional<Baselines>& baselines);
// A job that has no plan.
[[nodiscard]] plan_report::JobReport explain_none(const Topology& topology, const Job& job, std::string why);

// Of what has a load, the fullest first.
[[nodiscard]] std::vector<plan_report::Load> loads_of(const Topology& topology, const Rates& loads,
                                                      const Rates& capacity, const Rates& all_loads);

[[nodiscard]] plan_report::Kind kind_of(const Topology& topology, Resource resource) noexcept;

}  // namespace tally::planner
