#pragma once
// Facts of running jobs in, plans as boxes and workers take them out. Pure, but that a Ground remembers ways: one
// thread at a time, and a thread of its own has a Ground of its own.

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cluster/cluster.h"
#include "planner/jobs.h"
#include "planning/facts.h"
#include "tally/plan.h"

namespace tally::planning {

// Rates that were set beside the file: Gbit/s by the name of a resource (Topology::name_of).
using SetRates = std::map<std::string, double>;

// A cluster, made ready to be planned on. Ways are ECMP's: nothing makes a network follow others.
class Ground {
 public:
  // A name in `rates` that is none has no effect.
  explicit Ground(std::shared_ptr<const cluster::Cluster> cluster, const SetRates& rates = {});
  Ground(const Ground&) = delete;  // its ways refer to its topology
  Ground& operator=(const Ground&) = delete;

  [[nodiscard]] const cluster::Cluster& cluster() const noexcept { return *cluster_; }
  [[nodiscard]] const planner::Topology& topology() const noexcept { return topology_; }
  [[nodiscard]] planner::Network network() noexcept {
    return {topology_, ways_, planner::Routing::kEcmp, cluster_->results};
  }

 private:
  std::shared_ptr<const cluster::Cluster> cluster_;
  planner::Topology topology_;
  planner::Ways ways_;
};

// A box that has denied a job slots takes in less of it than the cluster says.
struct BoxLimit {
  std::string job{};
  Ipv6 box{};
  double most = 0;  // Gbit/s
};

struct RunningPlan {
  std::string why_not{};  // it could not be planned: a sentence, and all below is empty
  planner::Job job{};
  planner::Plan made{};
  planner::Rates room{};  // Gbit/s of each resource: what the job could have, the others' loads taken off
  Plan plan{};

  [[nodiscard]] bool planned() const noexcept { return why_not.empty(); }
};

// All jobs of a home, or of a fleet, beside one another.
[[nodiscard]] std::vector<RunningPlan> plan_together(Ground& ground, std::span<const JobFacts> jobs,
                                                     planner::Effort effort,
                                                     std::span<const BoxLimit> limits = {});
// The last of them at once, by closed forms. others: what lies on each resource of the rest; empty: nothing. It has what
// they leave, at least its share by workers.
[[nodiscard]] RunningPlan plan_at_once(Ground& ground, std::span<const JobFacts> jobs,
                                       const planner::Rates& others, std::span<const BoxLimit> limits = {});

// A plan that somebody else has made, with what it puts on this ground; as plan_at_once() the job has what others leave.
// Fails where the ground does not have its boxes or members.
[[nodiscard]] RunningPlan plan_of_another(Ground& ground, std::span<const JobFacts> jobs,
                                          const planner::Rates& others, const Plan& plan,
                                          std::span<const BoxLimit> limits = {});

// Gbit/s of every worker by the plan's tables where a resource has so much room, and its boxes as much as `job` says;
// topology: that the plan was made for, but for rates.
[[nodiscard]] double rate_in(const planner::Topology& topology, const RunningPlan& plan,
                             const planner::Job& job, const planner::Rates& room);

}  // namespace tally::planning
