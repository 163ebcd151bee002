#pragma once
// Plans of all jobs of a cluster, and what each would have without one. Pure.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "planner/jobs.h"
#include "tally/error.h"

namespace tally::plan_tool {

using planner::Index;

// A way to do without the plan, for comparison.
struct Compared {
  const char* name = "";   // for programs
  const char* title = "";  // for people
  std::optional<double>
      rate{};  // Gbit/s of every worker; empty: it does not apply, or is too large to reckon
};

struct PlannedJob {
  const cluster::Cluster::Job* job = nullptr;
  std::size_t racks = 0;  // with workers of it
  Result<planner::Plan> plan{};
  std::vector<Compared> compared{};
  double ring = 0;  // Gbit/s of every worker around a ring, without boxes and servers; 0: not reckoned

  [[nodiscard]] double rate() const { return plan ? plan->rate : 0; }
  // A ring needs no box, so it is worth a word where it is faster.
  [[nodiscard]] bool ring_is_faster() const { return ring > rate(); }
};

struct PlannedCluster {
  planner::Topology topology{};
  std::vector<PlannedJob> jobs{};  // in the order of the file
  planner::Rates
      capacity{};          // Gbit/s of each resource; of a box what its slot memory carries, if that is less
  planner::Rates loads{};  // of all jobs together

  // Gbit/s of gradients: of all workers of all jobs.
  [[nodiscard]] double total() const;
  // Boxes before servers, those before links between switches, hosts' links last: what is worth telling of two that
  // are as full.
  [[nodiscard]] int order_of(planner::Resource resource) const;
  // What limits a job that has a plan, kNone: its demand; of several that are full alike the one worth telling.
  [[nodiscard]] planner::Resource full(const PlannedJob& job) const;
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
