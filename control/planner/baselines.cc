#include "planner/baselines.h"

#include <algorithm>

#include "planner/closed_form.h"
#include "planner/rounding.h"

namespace tally::planner {
namespace {

std::optional<double> best_mixture(const Network& network, const Party& party, const Rates& capacity,
                                   const Options& options, const Allowed& allowed, double share_of_columns) {
  const auto columns = static_cast<double>(full_form_columns(network, party, capacity)) * share_of_columns;
  if (columns > static_cast<double>(options.most_columns)) return std::nullopt;
  const auto split = full_form(network, party, capacity, allowed);
  if (!split) return std::nullopt;
  return split->rate;
}

double rate_of_tables(const Network& network, const Party& party, const Rates& capacity, const Split& split) {
  const Spread by_ecmp;
  LoadModel model(network, party, by_ecmp);
  const Rates loads = unit_loads(model, network.topology, party, round_to_groups(split, party));
  return rate_of(network.topology, party, capacity, loads).rate;
}

}  // namespace

double ring_rate(const Network& network, const Job& job, const Rates& capacity) {
  const Topology& topology = network.topology;
  std::vector<Index> order = job.workers;
  const auto rack_of = [&](Index host) { return topology.hosts()[host].rack; };
  std::sort(order.begin(), order.end(),
            [&](Index a, Index b) { return std::pair(rack_of(a), a) < std::pair(rack_of(b), b); });
  const auto workers = static_cast<double>(order.size());
  Rates loads(topology.resources());
  for (std::size_t w = 0; w < order.size(); ++w) {
    const Index from = order[w];
    const Index to = order[(w + 1) % order.size()];
    if (from == to) continue;
    const double hop = 2 * (workers - 1) / workers;
    loads[topology.link(topology.hosts()[from].up)] += hop;
    loads[topology.link(topology.hosts()[to].down)] += hop;
    if (rack_of(from) == rack_of(to)) continue;
    if (!network.ways.lead(rack_of(from), rack_of(to))) return 0;
    for (const LinkPart& one : network.ways.parts(rack_of(from), rack_of(to)))
      loads[topology.link(one.link)] += hop * one.part;
  }
  double rate = job.demand;
  for (std::size_t r = 0; r < loads.size(); ++r) {
    if (loads[r] > 0) rate = std::min(rate, capacity[r] / loads[r]);
  }
  return rate;
}

Result<Baselines> baselines_of(const Network& network, const Job& job, const Rates& capacity,
                               const Plan& plan, const Options& options) {
  const Topology& topology = network.topology;
  const auto party = party_of(topology, job, capacity);
  if (!party) return tl::unexpected<Error>(party.error());
  Baselines found{.bound = plan.bound, .ring = ring_rate(network, job, capacity)};
  const auto product = solve_product(network, *party, capacity);
  if (product) {
    LoadModel model(network, *party, product->spread);
    const Rates loads = independent_loads(model, topology, *party, *product, 1);
    found.independent = rate_of(topology, *party, capacity, loads).rate;
  }
  if (party->servers.empty()) return found;

  const auto boxes = static_cast<double>(topology.boxes().size());
  const auto at_home = [&](std::size_t rack, Index box) {
    return topology.boxes()[box].at == party->racks[rack].at;
  };
  const auto at_server = [&](Index box) {
    return std::any_of(party->servers.begin(), party->servers.end(),
                       [&](const Party::Server& server) { return server.at == topology.boxes()[box].at; });
  };
  const double few = 1 / (1 + boxes);
  found.no_aggregation = best_mixture(
      network, *party, capacity, options, [](std::size_t, Index) { return false; }, few);
  found.own_rack = best_mixture(network, *party, capacity, options, at_home, 2 * few);
  found.own_or_server_rack = best_mixture(
      network, *party, capacity, options,
      [&](std::size_t rack, Index box) { return at_home(rack, box) || at_server(box); },
      (2 + static_cast<double>(party->servers.size())) * few);
  found.own_rack_greedy =
      rate_of_tables(network, *party, capacity, closed_form_split(network, *party, capacity, true));

  Job equal = job;
  equal.shares.assign(job.servers.size(), 1.0 / static_cast<double>(job.servers.size()));
  if (const auto equal_party = party_of(topology, equal, capacity)) {
    if (const auto split = solve_product(network, *equal_party, capacity)) found.equal_split = split->rate;
  }
  return found;
}

}  // namespace tally::planner
