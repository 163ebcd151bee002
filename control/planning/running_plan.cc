#include "planning/running_plan.h"

#include <algorithm>
#include <utility>

#include "planner/closed_form.h"
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

// Of the last of the jobs.
Rates room_beside(const Ground& ground, std::span<const JobFacts> jobs, const Rates& others) {
  double workers = 0;
  for (const JobFacts& one : jobs) workers += static_cast<double>(one.ranks.size());
  const double share = static_cast<double>(jobs.back().ranks.size()) / workers;
  Rates room = ground.topology().rates();
  for (Resource r = 0; r < room.size() && r < others.size(); ++r)
    room[r] = std::max(room[r] - others[r], room[r] * share);
  return room;
}

// Plans do not travel with it.
planner::Form form_of(const planner::Topology& topology, const planner::Tables& tables, std::size_t told) {
  using planner::Entry;
  bool own = true;
  for (std::size_t r = 0; r < tables.racks.size(); ++r) {
    for (const Entry& entry : tables.of_rack[r])
      own =
          own && (entry.box == Entry::kNoBox || tables.boxes[entry.box] == topology.box_at(tables.racks[r]));
  }
  if (own) return planner::Form::kOwnRacks;
  return told == 1 ? planner::Form::kAnyBox : planner::Form::kFull;
}

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
  Rates room = room_beside(ground, jobs, others);
  auto plan = planner::make_plan(ground.network(), *job, room, {.effort = planner::Effort::kAtOnce});
  if (!plan) return not_planned(plan.error());
  return finished(ground, jobs.back(), std::move(*job), std::move(*plan), std::move(room));
}

RunningPlan plan_of_another(Ground& ground, std::span<const JobFacts> jobs, const Rates& others,
                            const Plan& plan, std::span<const BoxLimit> limits) {
  const cluster::Cluster& cluster = ground.cluster();
  const planner::Topology& topology = ground.topology();
  auto all = located(cluster, jobs);
  auto& job = all.back();
  if (!job) return not_planned(job.error());
  limit(cluster, limits, *job);
  Rates room = room_beside(ground, jobs, others);
  const auto party = planner::party_of(topology, *job, room);
  if (!party) return not_planned(party.error());
  planner::Plan made{.job = job->name, .bound = planner::upper_bound(topology, *party, room)};
  for (const Ipv6& address : plan.boxes) {
    const auto at = std::ranges::find_if(
        cluster.boxes, [&](const cluster::Cluster::Box& box) { return box.address == address; });
    if (at == cluster.boxes.end()) return {.why_not = "the cluster does not have a box of its plan"};
    made.tables.boxes.push_back(static_cast<Index>(at - cluster.boxes.begin()));
  }
  for (const planner::Party::Rack& one : party->racks) {
    const Index rack = one.at;
    made.tables.racks.push_back(rack);
    const auto rank =
        std::ranges::find_if(job->workers, [&](const Index host) { return cluster.hosts[host].at == rack; });
    const auto r = static_cast<std::size_t>(rank - job->workers.begin());
    if (r >= plan.table_of.size()) return {.why_not = "its plan is of other ranks"};
    const RouteTable& table = plan.tables[plan.table_of[r]];
    auto& entries = made.tables.of_rack.emplace_back();
    for (std::size_t g = 0; g < kPlanGroups; ++g)
      entries[g] = {.box = table[g].direct ? planner::Entry::kNoBox : table[g].box,
                    .server = plan.servers[g]};
  }
  const planner::Network network = ground.network();
  planner::LoadModel model(network, *party, made.spread);
  made.loads = planner::unit_loads(model, topology, *party, made.tables);
  const planner::Rated rated = planner::rate_of(topology, *party, room, made.loads);
  made.rate = rated.rate;
  made.binding = rated.binding;
  for (double& load : made.loads) load *= rated.rate;
  made.form = form_of(topology, made.tables, plan.tables.size());
  return {.job = std::move(*job), .made = std::move(made), .room = std::move(room), .plan = plan};
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
