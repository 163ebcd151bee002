#include "planner/explanation.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace tally::planner {
namespace {

using plan_report::JobReport;
using plan_report::Kind;
using plan_report::Load;

constexpr double kNothing = 1e-9;
constexpr double kFits = 1 + 1e-9;
constexpr double kFull = 0.995;  // of what a resource can take

std::vector<plan_report::Compared> compared(const Baselines& b) {
  return {{"no_aggregation", b.no_aggregation},
          {"own_rack_greedy", b.own_rack_greedy},
          {"own_rack", b.own_rack},
          {"own_or_server_rack", b.own_or_server_rack},
          {"equal_split", b.equal_split},
          {"independent", b.independent}};
}

JobReport head_of(const Topology& topology, const Job& job) {
  JobReport out{.name = job.name, .workers = job.workers.size(), .parameter_servers = job.servers.size()};
  std::set<Index> racks;
  for (const Index host : job.workers) racks.insert(topology.hosts()[host].rack);
  out.racks = racks.size();
  return out;
}

void add_parts(JobReport& out, const Topology& topology, const Job& job, const Tables& tables) {
  std::vector<std::uint32_t> groups(tables.boxes.size());
  std::vector<double> shares(tables.boxes.size());
  std::vector<std::uint32_t> merged(job.servers.size());
  const auto workers_in = [&](Index rack) {
    return std::ranges::count_if(job.workers,
                                 [&](Index host) { return topology.hosts()[host].rack == rack; });
  };
  std::vector<double> part;  // of all workers, of each rack
  for (const Index rack : tables.racks)
    part.push_back(static_cast<double>(workers_in(rack)) / static_cast<double>(job.workers.size()));
  for (std::size_t g = 0; g < kGroups; ++g) {
    std::set<std::uint8_t> used;
    for (std::size_t r = 0; r < tables.racks.size(); ++r) {
      const Entry& entry = tables.of_rack[r][g];
      if (entry.box == Entry::kNoBox) continue;
      used.insert(entry.box);
      shares[entry.box] += part[r] * kOneGroup;
    }
    for (const std::uint8_t box : used) ++groups[box];
    if (!merged.empty() && !tables.racks.empty()) ++merged[tables.of_rack[0][g].server];
  }
  for (std::size_t b = 0; b < groups.size(); ++b)
    out.boxes.push_back({topology.boxes()[tables.boxes[b]].name, groups[b], shares[b]});
  for (std::size_t s = 0; s < merged.size(); ++s)
    out.servers.push_back({topology.servers()[job.servers[s]].name, merged[s], merged[s] * kOneGroup});
}

}  // namespace

Kind kind_of(const Topology& topology, Resource resource) noexcept {
  if (resource < topology.links().size()) {
    const Link& link = topology.links()[resource];
    return link.from == kNone || link.to == kNone ? Kind::kHostLink : Kind::kLink;
  }
  return resource < topology.links().size() + topology.boxes().size() ? Kind::kBox : Kind::kServer;
}

JobReport explain_none(const Topology& topology, const Job& job, std::string why) {
  JobReport out = head_of(topology, job);
  out.why_not = std::move(why);
  return out;
}

std::vector<Load> loads_of(const Topology& topology, const Rates& loads, const Rates& capacity,
                           const Rates& all_loads) {
  std::vector<Load> out;
  const Rates rates = topology.rates();
  for (Resource r = 0; r < loads.size(); ++r) {
    if (loads[r] > kNothing)
      out.push_back({.name = topology.name_of(r),
                     .kind = kind_of(topology, r),
                     .load = loads[r],
                     .all = all_loads[r],
                     .room = capacity[r],
                     .lacks_slots = capacity[r] < rates[r]});
  }
  std::ranges::stable_sort(out, {}, [](const Load& one) {
    const double share = one.room > 0 ? one.load / one.room : 0;
    return std::pair(-std::llround(share * 1000), one.kind);
  });
  return out;
}

JobReport explain(const Topology& topology, const Job& job, const Plan& plan, const Rates& capacity,
                  const Rates& all_loads, const std::optional<Baselines>& baselines) {
  JobReport out = head_of(topology, job);
  out.rate = plan.rate;
  out.promised = plan.promised;
  out.bound = plan.bound;
  out.form = name_of(plan.form);
  out.loads = loads_of(topology, plan.loads, capacity, all_loads);
  Resource full = plan.binding;
  for (Resource r = 0; full != kNone && r < plan.loads.size(); ++r) {
    const bool is_full = plan.loads[r] > 0 && all_loads[r] * kFits >= capacity[r];
    if (is_full && kind_of(topology, r) < kind_of(topology, full)) full = r;
  }
  if (full != kNone) {
    out.full = topology.name_of(full);
    out.lacks_slots = capacity[full] < topology.rates()[full];
    for (Resource r = 0; r < all_loads.size(); ++r)
      out.as_full += r != full && all_loads[r] > kNothing && all_loads[r] >= kFull * capacity[r] ? 1 : 0;
  }
  if (baselines) {
    out.compared = compared(*baselines);
    out.ring = baselines->ring;
  }
  add_parts(out, topology, job, plan.tables);
  return out;
}

}  // namespace tally::planner
