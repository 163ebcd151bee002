#include "planning/running_plan.h"

#include <algorithm>
#include <utility>

#include "planning/locate.h"
#include "planning/published.h"

namespace tally::planning {
namespace {

using planner::Index;
using planner::Rates;
using planner::Resource;

void limit(const cluster::Cluster& cluster, std::span<const BoxLimit> limits, planner::Job& job) {
  for (planner::Job::Use& use : job.boxes) {
    for (const BoxLimit& one : limits) {
      if (one.job == job.name && cluster.boxes[use.box].address == one.box)
        use.most = std::min(use.most, one.most);
    }
  }
}

RunningPlan not_planned(const Error& error) { return {.why_not = error.what}; }

RunningPlan finished(const Ground& ground, const JobFacts& facts, planner::Job job, planner::Plan made,
                     Rates room) {
  const cluster::Cluster& cluster = ground.cluster();
  std::vector<Ipv6> boxes;
  boxes.reserve(cluster.boxes.size());
  for (const cluster::Cluster::Box& box : cluster.boxes) boxes.push_back(box.address.value_or(Ipv6{}));
  std::vector<Index> racks;
  racks.reserve(job.workers.size());
  for (const Index host : job.workers) racks.push_back(cluster.hosts[host].at);
  auto plan = published(ground.topology(), made.tables,
                        {boxes, racks, static_cast<std::uint8_t>(facts.servers.size())});
  if (!plan) return not_planned(plan.error());
  return {.job = std::move(job), .made = std::move(made), .room = std::move(room), .plan = std::move(*plan)};
}

}  // namespace

Ground::Ground(std::shared_ptr<const cluster::Cluster> cluster, const SetRates& rates)
    : cluster_(std::move(cluster)), topology_(topology_of(*cluster_)), ways_(topology_) {
  for (Resource r = 0; r < topology_.resources() && !rates.empty(); ++r) {
    const auto set = rates.find(topology_.name_of(r));
    if (set != rates.end()) topology_.set_rate(r, set->second);
  }
}

std::vector<RunningPlan> plan_together(Ground& ground, std::span<const JobFacts> jobs, planner::Effort effort,
                                       std::span<const BoxLimit> limits) {
  auto all = located(ground.cluster(), jobs);
  std::vector<planner::Job> found;
  for (auto& job : all) {
    if (!job) continue;
    limit(ground.cluster(), limits, *job);
    found.push_back(*job);
  }
  const Rates rates = ground.topology().rates();
  auto plans = planner::make_plans(ground.network(), found, rates, {.effort = effort});
  Rates left = rates;
  for (const auto& plan : plans) {
    for (Resource r = 0; plan && r < left.size(); ++r) left[r] -= plan->loads[r];
  }
  std::vector<RunningPlan> out;
  for (std::size_t j = 0, p = 0; j < jobs.size(); ++j) {
    if (!all[j]) {
      out.push_back(not_planned(all[j].error()));
      continue;
    }
    auto& plan = plans[p++];
    if (!plan) {
      out.push_back(not_planned(plan.error()));
      continue;
    }
    Rates room = left;
    for (Resource r = 0; r < room.size(); ++r) room[r] = std::max(0.0, room[r] + plan->loads[r]);
    out.push_back(finished(ground, jobs[j], std::move(*all[j]), std::move(*plan), std::move(room)));
  }
  return out;
}

RunningPlan plan_at_once(Ground& ground, std::span<const JobFacts> jobs, const Rates& others,
                         std::span<const BoxLimit> limits) {
  auto all = located(ground.cluster(), jobs);
  auto& job = all.back();
  if (!job) return not_planned(job.error());
  limit(ground.cluster(), limits, *job);
  double workers = 0;
  for (const JobFacts& one : jobs) workers += static_cast<double>(one.ranks.size());
  const double share = static_cast<double>(jobs.back().ranks.size()) / workers;
  Rates room = ground.topology().rates();
  for (Resource r = 0; r < room.size() && r < others.size(); ++r)
    room[r] = std::max(room[r] - others[r], room[r] * share);
  auto plan = planner::make_plan(ground.network(), *job, room, {.effort = planner::Effort::kAtOnce});
  if (!plan) return not_planned(plan.error());
  return finished(ground, jobs.back(), std::move(*job), std::move(*plan), std::move(room));
}

double rate_in(const planner::Topology& topology, const RunningPlan& plan, const planner::Job& job,
               const Rates& room) {
  if (!plan.planned() || !(plan.made.rate > 0)) return 0;
  const auto party = planner::party_of(topology, job, room);
  if (!party) return 0;
  Rates unit = plan.made.loads;
  for (double& load : unit) load /= plan.made.rate;
  return planner::rate_of(topology, *party, room, unit).rate;
}

}  // namespace tally::planning
