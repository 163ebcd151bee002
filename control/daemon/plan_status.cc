#include "daemon/plan_status.h"

#include <algorithm>
#include <set>
#include <utility>

#include "members/texts.h"
#include "planner/explanation.h"

namespace tally::daemon {
namespace {

using planner::Index;
using planner::Rates;

bool has(const std::vector<Ipv6>& all, const Ipv6& address) {
  return std::ranges::find(all, address) != all.end();
}

api::PlannedJob planned_job(const std::string& name, const planning::Desk::Job& job,
                            const planning::Desk& desk, const Rates& rates, const Rates& loads) {
  api::PlannedJob out;
  if (desk.has_loads(job)) {
    out.report =
        planner::explain(desk.ground()->topology(), job.plan.job, job.plan.made, rates, loads, job.baselines);
  } else {
    out.report.why_not = job.plan.planned()
                             ? "box " + job.planner +
                                   " of the fleet has planned it, and knows what it brings: this box has no "
                                   "cluster's file with its members in it"
                             : job.plan.why_not;
    out.report.workers = job.facts.ranks.size();
    out.report.parameter_servers = job.facts.servers.size();
  }
  out.report.name = name;
  out.planner = job.planner;
  out.planned = job.planned;
  out.why = std::string(planning::word_of(job.cause)) + (job.cause_text.empty() ? "" : ": " + job.cause_text);
  if (job.plan.planned()) out.effort = job.in_haste ? "at once" : "full";
  out.epoch = raw(job.epoch);
  out.pause = job.pause;
  if (job.plan.planned() && job.in_haste && !job.baselines) out.better = "a better plan is looked for";
  return out;
}

api::PlanTopology topology_of(const planning::Desk& desk, const Rates& rates, const Rates& loads,
                              const std::vector<Ipv6>& own) {
  const cluster::Cluster& cluster = desk.ground()->cluster();
  const planner::Topology& topology = desk.ground()->topology();
  std::set<Ipv6> known;
  std::set<Ipv6> lost;
  api::PlanTopology out;
  for (const cluster::Cluster::Switch& one : cluster.switches) out.switches.push_back({one.name, one.rack});
  for (const auto& [name, job] : desk.jobs()) {
    known.insert(job.facts.boxes.begin(), job.facts.boxes.end());
    for (std::size_t b = 0; b < job.facts.boxes.size(); ++b)
      if ((job.left_out >> b & 1U) != 0) lost.insert(job.facts.boxes[b]);
    for (const Index host : job.plan.job.workers) ++out.switches[cluster.hosts[host].at].workers;
  }
  for (Index h = 0; h < topology.hosts().size(); ++h) {
    const planner::Host& host = topology.hosts()[h];
    api::PlanTopology::Switch& rack = out.switches[host.rack];
    ++rack.hosts;
    for (const Index link : {host.up, host.down}) {
      const planner::Resource r = topology.link(link);
      if (!(loads[r] > 0) || loads[r] * rack.nic_rate < rack.nic_load * rates[r]) continue;
      rack.nic_rate = rates[r];
      rack.nic_load = loads[r];
    }
  }
  for (Index l = 0; l < topology.links().size(); ++l) {
    const planner::Link& link = topology.links()[l];
    if (link.from == planner::kNone || link.to == planner::kNone) continue;
    const planner::Resource r = topology.link(l);
    out.links.push_back({link.from, link.to, rates[r], loads[r]});
  }
  for (Index b = 0; b < cluster.boxes.size(); ++b) {
    const cluster::Cluster::Box& box = cluster.boxes[b];
    const planner::Resource r = topology.box(b);
    api::PlanTopology::Box& shown =
        out.boxes.emplace_back(api::PlanTopology::Box{box.name, "", box.at, rates[r], loads[r]});
    if (!(rates[r] > 0) || (box.address && lost.contains(*box.address)))
      shown.state = api::PlaceState::kLost;
    else if (!box.address || !known.contains(*box.address))
      shown.state = api::PlaceState::kUnknown;
    if (!box.address) continue;
    shown.address = members::address_text(*box.address);
    shown.here = has(own, *box.address);
  }
  for (Index s = 0; s < cluster.servers.size(); ++s) {
    const planner::Resource r = topology.server(s);
    out.servers.push_back({cluster.servers[s].name, cluster.hosts[cluster.servers[s].host].at, rates[r],
                           loads[r], rates[r] > 0 ? api::PlaceState::kUp : api::PlaceState::kLost});
  }
  return out;
}

}  // namespace

api::PlanStatus plan_status(const planning::Desk& desk, const std::string& file,
                            const std::vector<Ipv6>& own) {
  api::PlanStatus out{.cluster = file};
  Rates rates;
  Rates loads;
  if (desk.ground() != nullptr) {
    rates = desk.ground()->topology().rates();
    loads = desk.all_loads();
    out.topology = topology_of(desk, rates, loads, own);
  }
  for (const auto& [name, job] : desk.jobs()) {
    out.jobs.push_back(planned_job(name, job, desk, rates, loads));
    if (!own.empty()) out.jobs.back().home = members::address_text(own.front());
  }
  for (std::size_t c = 0; c < planning::kCauses.size(); ++c)
    out.changes.push_back({std::string(planning::kCauses.at(c)), desk.changes().at(c)});
  return out;
}

}  // namespace tally::daemon
