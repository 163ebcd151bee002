#pragma once
// Plans of all jobs of a cluster, and what each would have without one. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "planner/plan.h"
#include "tally/error.h"

namespace tally::plan_tool {

using planner::Index;

// A way to do without the plan, for comparison.
struct Compared {
  std::string name{};   // for programs: "none", "own_racks" ...
  std::string title{};  // for people
  double rate = 0;      // Gbit/s of every worker; 0: not at all
};

struct PlannedJob {
  const cluster::Cluster::Job* job = nullptr;
  std::size_t racks = 0;  // with workers of it
  Result<planner::Plan> plan{};
  std::vector<Compared> compared{};
  double ring = 0;  // Gbit/s of every worker around a ring, without boxes and servers; 0: not compared

  [[nodiscard]] double rate() const { return plan ? plan->rate : 0; }
  // A ring needs no box, so it is worth a word where it is faster.
  [[nodiscard]] bool ring_is_faster() const { return ring > rate(); }
};

struct PlannedCluster {
  planner::Topology topology{};
  std::vector<PlannedJob> jobs{};  // in the order of the file
  planner::Rates loads{};          // of all jobs together, Gbit/s on each resource

  // Gbit/s of gradients: of all workers of all jobs.
  [[nodiscard]] double total() const;
};

// One job after the other, those with the most workers first; each has what those before it leave. cluster outlives
// the answer. compare: also fills in what the jobs would have without a plan, each beside the same others.
enum class Compare : std::uint8_t { kNo, kYes };
[[nodiscard]] PlannedCluster plan_all(const cluster::Cluster& cluster, planner::Effort effort, Compare compare);

// What no plan of its jobs exceeds in total: each as if it were alone.
[[nodiscard]] double bound_of_total(const cluster::Cluster& cluster);

}  // namespace tally::plan_tool
