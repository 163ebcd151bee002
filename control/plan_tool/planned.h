#pragma once
// Plans of all jobs of a cluster, and what each would have without one. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "plan_report/report.h"
#include "planner/baselines.h"
#include "planner/jobs.h"
#include "tally/error.h"

namespace tally::plan_tool {

using planner::Index;

struct PlannedJob {
  const cluster::Cluster::Job* job = nullptr;
  Result<planner::Plan> plan{};
  std::optional<planner::Baselines> baselines{};
  double ring = 0;  // Gbit/s of every worker around a ring, without boxes and servers; 0: not reckoned

  [[nodiscard]] double rate() const { return plan ? plan->rate : 0; }
};

struct PlannedCluster {
  planner::Topology topology{};
  std::vector<PlannedJob> jobs{};  // in the order of the file
  planner::Rates
      capacity{};          // Gbit/s of each resource; of a box what its slot memory carries, if that is less
  planner::Rates loads{};  // of all jobs together

  // Gbit/s of gradients: of all workers of all jobs.
  [[nodiscard]] double total() const;
  // Of what has a load of any job, the fullest first.
  [[nodiscard]] std::vector<plan_report::Load> all_loads() const;
  [[nodiscard]] plan_report::JobReport report(const PlannedJob& job) const;
};

// What else is reckoned of each job, beside the same other jobs: what it would have around a ring; and by all of the
// planner's baselines.
enum class Compare : std::uint8_t { kNothing, kRing, kAll };
// cluster outlives the answer.
[[nodiscard]] PlannedCluster plan_all(const cluster::Cluster& cluster, planner::Effort effort,
                                      Compare compare);

// What no plan of its jobs exceeds in total: each as if it were alone.
[[nodiscard]] double bound_of_total(const cluster::Cluster& cluster);

}  // namespace tally::plan_tool
