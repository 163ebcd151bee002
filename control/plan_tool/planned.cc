#include "plan_tool/planned.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "planner/closed_form.h"
#include "planner/rounding.h"

namespace tally::plan_tool {
namespace {

using planner::kNone;
using planner::Party;
using planner::Plan;
using planner::Rates;

constexpr int kTries = 3;  // to make the plan fit the boxes' slot memory

class Planning {
 public:
  Planning(const cluster::Cluster& cluster, planner::Effort effort, Compare compare, PlannedCluster& out)
      : cluster_(cluster),
        compare_(compare),
        out_(out),
        ways_(out.topology),
        network_{out.topology, ways_, cluster.routing, cluster.results},
        options_{.effort = effort},
        left_(out.topology.rates()),
        memory_(cluster.boxes.size(), kUnlimited) {
    for (std::size_t b = 0; b < cluster.boxes.size(); ++b) {
      if (cluster.boxes[b].slots) memory_[b] = static_cast<double>(*cluster.boxes[b].slots);
    }
  }

  void plan_job(PlannedJob& job) {
    auto party = planner::party_of(out_.topology, job.job->plan, left_);
    if (!party) {
      job.plan = tl::unexpected<Error>(std::move(party.error()));
      return;
    }
    job.racks = party->racks.size();
    job.plan = fitted_plan(job.job->plan.name, *party);
    if (compare_ == Compare::kYes) compare(job, *party);
    if (!job.plan) return;
    const Plan& plan = *job.plan;
    for (std::size_t r = 0; r < left_.size(); ++r) {
      left_[r] = std::max(0.0, left_[r] - plan.loads[r]);
      out_.loads[r] += plan.loads[r];
    }
    for (Index b = 0; b < memory_.size(); ++b) memory_[b] = std::max(0.0, memory_[b] - memory_of(plan, *party, b));
  }

 private:
  static constexpr double kUnlimited = 1e18;

  // Workers that send to a box by this plan.
  static double here(const Plan& plan, const Party& party, Index box) {
    const auto at = std::ranges::find(plan.tables.boxes, box);
    if (at == plan.tables.boxes.end()) return 0;
    const auto entry = static_cast<std::uint8_t>(at - plan.tables.boxes.begin());
    double workers = 0;
    for (std::size_t r = 0; r < party.racks.size(); ++r) {
      if (std::ranges::find(plan.tables.of_rack[r], entry, &planner::Entry::box) != plan.tables.of_rack[r].end())
        workers += party.racks[r].workers;
    }
    return workers;
  }

  // Bytes of slot memory that a plan takes of a box.
  double memory_of(const Plan& plan, const Party& party, Index box) const {
    const double workers = here(plan, party, box);
    const double load = plan.loads[out_.topology.box(box)];
    return workers > 0 ? load / planner::memory_rate(workers, 1, 1, cluster_.slot_seconds) : 0;
  }

  // A plan that no box lacks slot memory for.
  Result<Plan> fitted_plan(const std::string& name, Party& party) {
    party.box_limits.clear();
    for (int tries = 1;; ++tries) {
      Result<Plan> plan = planner::make_plan(network_, name, party, left_, options_);
      if (!plan) return plan;
      double worst = 1;  // times what a box has
      Index narrow = kNone;
      for (Index b = 0; b < memory_.size(); ++b) {
        const double need = memory_of(*plan, party, b);
        if (need <= memory_[b] * (1 + 1e-9)) continue;
        if (party.box_limits.empty()) party.box_limits.assign(memory_.size(), kUnlimited);
        party.box_limits[b] = plan->loads[out_.topology.box(b)] * memory_[b] / need;
        if (memory_[b] <= 0 || need / memory_[b] > worst) {
          worst = need / memory_[b];
          narrow = b;
        }
      }
      if (narrow == kNone) return plan;
      if (tries == kTries) return slowed(std::move(*plan), worst, out_.topology.box(narrow), name);
    }
  }

  // All of it in proportion: less is under way.
  static Result<Plan> slowed(Plan plan, double times, planner::Resource binding, const std::string& name) {
    plan.rate /= times;
    if (!(plan.rate > 0)) return fail(ErrorCode::kInvalidArgument, "no box has slot memory left for this job", name);
    for (double& load : plan.loads) load /= times;
    plan.binding = binding;
    return plan;
  }

  // The rate of a split by the tables that it gives.
  double rate_of(const planner::Split& split, const Party& party) {
    planner::LoadModel model(network_, party, split.spread);
    const planner::Tables tables = planner::round_to_groups(split, party);
    return planner::rate_of(out_.topology, party, left_,
                            planner::unit_loads(model, out_.topology, party, tables))
        .rate;
  }

  void compare(PlannedJob& job, const Party& party) {
    Rates none = left_;
    for (Index b = 0; b < cluster_.boxes.size(); ++b) none[out_.topology.box(b)] = 0;
    const auto without = planner::make_plan(network_, job.job->plan.name, party, none, options_);
    job.compared.push_back({"none", "no aggregation", without ? without->rate : 0});
    if (!party.servers.empty())
      job.compared.push_back({"own_racks", "boxes of their own racks alone (ATP)",
                              rate_of(planner::closed_form_split(network_, party, left_, true), party)});
  }

  const cluster::Cluster& cluster_;
  Compare compare_;
  PlannedCluster& out_;
  planner::Ways ways_;
  planner::Network network_;
  planner::Options options_;
  Rates left_;
  std::vector<double> memory_;  // bytes of slots left in each box
};

}  // namespace

double PlannedCluster::total() const {
  return std::transform_reduce(jobs.begin(), jobs.end(), 0.0, std::plus<>(), [](const PlannedJob& job) {
    return static_cast<double>(job.job->plan.workers.size()) * job.rate();
  });
}

PlannedCluster plan_all(const cluster::Cluster& cluster, planner::Effort effort, Compare compare) {
  PlannedCluster out{.topology = cluster::topology_of(cluster)};
  out.loads.assign(out.topology.resources(), 0);
  for (const cluster::Cluster::Job& job : cluster.jobs)
    out.jobs.push_back({.job = &job, .plan = planner::Plan{}});
  std::vector<PlannedJob*> order;
  for (PlannedJob& job : out.jobs) order.push_back(&job);
  std::ranges::stable_sort(order, std::greater<>(), [](const PlannedJob* job) { return job->job->plan.workers.size(); });
  Planning planning(cluster, effort, compare, out);
  for (PlannedJob* const job : order) planning.plan_job(*job);
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
