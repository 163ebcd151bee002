#include "plan_tool/planned.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "planner/baselines.h"
#include "planner/closed_form.h"
#include "planner/explanation.h"

namespace tally::plan_tool {
namespace {

using planner::Network;
using planner::Plan;
using planner::Rates;

constexpr int kTries = 3;  // to find plans that fit the boxes' slot memory
constexpr double kFits = 1 + 1e-9;

// Bytes of slot memory that a plan takes of a box: its load, shared by the workers that reach the box, for as long as a
// chunk holds its slot.
double memory_of(const cluster::Cluster& cluster, const planner::Topology& topology, const Plan& plan,
                 Index box) {
  const auto at = std::ranges::find(plan.tables.boxes, box);
  if (at == plan.tables.boxes.end()) return 0;
  const auto entry = static_cast<std::uint8_t>(at - plan.tables.boxes.begin());
  std::set<Index> racks;
  for (std::size_t r = 0; r < plan.tables.racks.size(); ++r) {
    const auto& table = plan.tables.of_rack[r];
    if (std::ranges::find(table, entry, &planner::Entry::box) != table.end())
      racks.insert(plan.tables.racks[r]);
  }
  const auto job = std::ranges::find(cluster.jobs, plan.job, [](const auto& one) { return one.plan.name; });
  const auto here = std::ranges::count_if(job->plan.workers,
                                          [&](Index host) { return racks.contains(cluster.hosts[host].at); });
  return here == 0 ? 0
                   : plan.loads[topology.box(box)] /
                         planner::memory_rate(static_cast<double>(here), 1, 1, cluster.slot_seconds);
}

// Of a box that lacks memory: how many times what it has is asked of it.
double overfull(const cluster::Cluster& cluster, const planner::Topology& topology,
                const std::vector<Result<Plan>>& plans, Index box) {
  if (!cluster.boxes[box].slots) return 1;
  double need = 0;
  for (const Result<Plan>& plan : plans) need += plan ? memory_of(cluster, topology, *plan, box) : 0;
  return std::max(1.0, need / static_cast<double>(*cluster.boxes[box].slots));
}

// Less is under way, in proportion, wherever a box still lacks memory.
void slow_down(const planner::Topology& topology, Plan& plan, const std::vector<double>& times) {
  double most = 1;
  for (const Index box : plan.tables.boxes) {
    if (times[box] <= most || plan.loads[topology.box(box)] <= 0) continue;
    most = times[box];
    plan.binding = topology.box(box);
  }
  plan.rate /= most;
  for (double& load : plan.loads) load /= most;
}

// Plans of all jobs that no box lacks slot memory for. capacity: of boxes it becomes what their memory carries.
std::vector<Result<Plan>> fitting_plans(const cluster::Cluster& cluster, const Network& network,
                                        const planner::Options& options, Rates& capacity) {
  std::vector<planner::Job> jobs;
  for (const cluster::Cluster::Job& job : cluster.jobs) jobs.push_back(job.plan);
  for (int tries = 1;; ++tries) {
    std::vector<Result<Plan>> plans = planner::make_plans(network, jobs, capacity, options);
    std::vector<double> times;
    for (Index b = 0; b < cluster.boxes.size(); ++b)
      times.push_back(overfull(cluster, network.topology, plans, b));
    if (std::ranges::all_of(times, [](double one) { return one <= kFits; })) return plans;
    for (Index b = 0; b < cluster.boxes.size(); ++b) {
      if (times[b] <= kFits) continue;
      double load = 0;
      for (const Result<Plan>& plan : plans) load += plan ? plan->loads[network.topology.box(b)] : 0;
      capacity[network.topology.box(b)] = load / times[b];
    }
    if (tries < kTries) continue;
    for (Result<Plan>& plan : plans) {
      if (plan) slow_down(network.topology, *plan, times);
    }
    return plans;
  }
}

}  // namespace

double PlannedCluster::total() const {
  return std::transform_reduce(jobs.begin(), jobs.end(), 0.0, std::plus<>(), [](const PlannedJob& job) {
    return static_cast<double>(job.job->plan.workers.size()) * job.rate();
  });
}

std::vector<plan_report::Load> PlannedCluster::all_loads() const {
  return planner::loads_of(topology, loads, capacity, loads);
}

plan_report::JobReport PlannedCluster::report(const PlannedJob& job) const {
  const planner::Job& asked = job.job->plan;
  plan_report::JobReport out =
      job.plan ? planner::explain(topology, asked, *job.plan, capacity, loads, job.baselines)
               : planner::explain_none(topology, asked, job.plan.error().what);
  out.gradient = job.job->gradient;
  out.ring = job.ring;
  return out;
}

PlannedCluster plan_all(const cluster::Cluster& cluster, planner::Effort effort, Compare compare) {
  PlannedCluster out{.topology = cluster::topology_of(cluster)};
  planner::Ways ways(out.topology);
  const Network network{out.topology, ways, cluster.routing, cluster.results};
  const planner::Options options{.effort = effort};
  out.capacity = out.topology.rates();
  std::vector<Result<Plan>> plans = fitting_plans(cluster, network, options, out.capacity);
  out.loads.assign(out.topology.resources(), 0);
  for (std::size_t j = 0; j < plans.size(); ++j) {
    PlannedJob& job = out.jobs.emplace_back();
    job.job = &cluster.jobs[j];
    job.plan = std::move(plans[j]);
    for (Index r = 0; job.plan && r < out.loads.size(); ++r) out.loads[r] += job.plan->loads[r];
  }
  for (PlannedJob& job : out.jobs) {
    if (compare == Compare::kNothing) break;
    Rates left = out.capacity;
    for (Index r = 0; r < left.size(); ++r)
      left[r] = std::max(0.0, left[r] - out.loads[r] + (job.plan ? job.plan->loads[r] : 0));
    job.ring = planner::ring_rate(network, job.job->plan, left);
    if (compare != Compare::kAll || !job.plan) continue;
    if (const auto found = planner::baselines_of(network, job.job->plan, left, *job.plan, options); found)
      job.baselines = *found;
  }
  return out;
}

double bound_of_total(const cluster::Cluster& cluster) {
  const planner::Topology topology = cluster::topology_of(cluster);
  const Rates all = topology.rates();
  double total = 0;
  for (const cluster::Cluster::Job& job : cluster.jobs) {
    const auto party = planner::party_of(topology, job.plan, all);
    if (party) total += party->workers * planner::upper_bound(topology, *party, all);
  }
  return total;
}

}  // namespace tally::plan_tool
