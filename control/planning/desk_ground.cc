// What plans stand on: the cluster, what its links, boxes and servers have now, and what the plans of all jobs take of it.

#include <algorithm>
#include <utility>

#include "planning/desk.h"

namespace tally::planning {
namespace {

using planner::Rates;
using planner::Resource;

// Where nothing was measured yet: an epoch of a job that has just begun.
constexpr TimeNs kFirstRoundTrip = kMillisecond;

// Resources have the same numbers, and everybody is where they were.
bool same_shape(const cluster::Cluster& before, const cluster::Cluster& after) {
  const auto place = [](const cluster::Cluster::Place& x, const cluster::Cluster::Place& y) {
    return x.network == y.network && x.rack == y.rack;
  };
  const auto address = [](const auto& x, const auto& y) { return x.address == y.address; };
  if (!std::ranges::equal(before.places, after.places, place) ||
      !std::ranges::equal(before.boxes, after.boxes, address) ||
      !std::ranges::equal(before.servers, after.servers, address))
    return false;
  const planner::Topology a = topology_of(before);
  const planner::Topology b = topology_of(after);
  if (a.resources() != b.resources() || a.links().size() != b.links().size() ||
      a.boxes().size() != b.boxes().size())
    return false;
  for (Resource r = 0; r < a.resources(); ++r) {
    if (a.name_of(r) != b.name_of(r)) return false;
  }
  return true;
}

}  // namespace

void Desk::set_cluster(std::shared_ptr<const cluster::Cluster> cluster, TimeNs now) {
  const std::shared_ptr<const cluster::Cluster> before = std::exchange(cluster_, std::move(cluster));
  rates_.clear();
  box_limits_.clear();
  const bool alike = before && cluster_ && same_shape(*before, *cluster_);
  renew_ground(now);
  for (auto& [name, job] : jobs_) {
    if (!job.planner.empty()) {
      job.plan = of_fleet(job, Plan(job.plan.plan));
      compare_with_ground(job, now);
      continue;
    }
    if (alike && job.plan.planned()) {
      compare_with_ground(job, now);
      continue;
    }
    plan_even(job, ground_ ? "its plan is of another file of the cluster" : kNoCluster);
    if (ground_) ask(name, job, Cause::kDrift, "another file of the cluster");
  }
}

void Desk::renew_ground(TimeNs now) {
  ground_.reset();
  if (cluster_) ground_.emplace(cluster_, all_rates());
  stale_before_ = ++numbers_;
  // What no plan uses may be worth it now. If it stays so: what plans do use has its rules.
  dirty_ = true;
  worked_ = now + kSecond / 2;
  for (auto& [name, job] : jobs_) drop_hand(job);
}

SetRates Desk::all_rates() const {
  SetRates all = rates_;
  for (const auto& [name, rate] : rates_of_others_) {
    const auto at = all.emplace(name, rate).first;
    at->second = std::min(at->second, rate);
  }
  return all;
}

void Desk::hear_rates(SetRates others, TimeNs now) {
  if (others == rates_of_others_) return;
  rates_of_others_ = std::move(others);
  if (!ground_) return;
  renew_ground(now);
  for (auto& [name, job] : jobs_) compare_with_ground(job, now);
}

Result<void> Desk::set_rate(const std::string& resource, std::optional<double> rate, TimeNs now) {
  if (!ground_) return fail(ErrorCode::kInvalidArgument, kNoCluster, resource);
  const planner::Topology& topology = ground_->topology();
  Resource r = 0;
  while (r < topology.resources() && topology.name_of(r) != resource) ++r;
  if (r == topology.resources())
    return fail(ErrorCode::kInvalidArgument,
                "there is no such resource; names are such as 'link rack1 to spine1', 'box rack1' and "
                "'server ps1': tallyctl plan shows them",
                resource);
  if (rate)
    rates_[resource] = *rate;
  else
    rates_.erase(resource);
  renew_ground(now);
  for (auto& [name, job] : jobs_) compare_with_ground(job, now);
  return {};
}

void Desk::compare_with_ground(Job& job, TimeNs now) const {
  if (!has_loads(job)) return;
  const Rates rates = ground_->topology().rates();
  for (Resource r = 0; r < rates.size(); ++r) {
    if (rates[r] > 0)
      job.rules.saw_residual(now, r, rates[r]);
    else
      job.rules.saw_down(r);
  }
}

Rates Desk::loads_of_others(const std::string& name) const {
  Rates loads(ground_->topology().resources());
  for (const auto& [other, job] : jobs_) {
    if (other == name) continue;
    for (Resource r = 0; r < job.plan.made.loads.size() && r < loads.size(); ++r)
      loads[r] += job.plan.made.loads[r];
  }
  return loads;
}

Rates Desk::all_loads() const { return ground_ ? loads_of_others({}) : Rates{}; }

void Desk::count_on_ground(Job& job, TimeNs now) const {
  Rates counted_on;
  if (has_loads(job)) {
    counted_on = ground_->topology().rates();
    for (Resource r = 0; r < counted_on.size(); ++r)
      if (!(job.plan.made.loads[r] > 0)) counted_on[r] = 0;
  }
  const TimeNs round_trip = job.pause ? std::clamp(*job.pause, kMillisecond, kSecond) : kFirstRoundTrip;
  job.rules.published(now, round_trip, std::move(counted_on), job.in_haste && job.plan.planned());
}

}  // namespace tally::planning
