#include "schemes.h"

#include <algorithm>

#include "planner/rounding.h"

namespace tally::routes {
namespace {

using planner::Index;

Laid laid_out(const planner::Network& network, const planner::Party& party, const planner::Rates& capacity,
              planner::Split split) {
  Laid laid{.tables = planner::round_to_groups(split, party),
            .spread = std::move(split.spread),
            .at_best = split.rate};
  planner::LoadModel model(network, party, laid.spread);
  const planner::Rates loads = planner::unit_loads(model, network.topology, party, laid.tables);
  laid.rate = planner::rate_of(network.topology, party, capacity, loads).rate;
  return laid;
}

}  // namespace

Result<Laid> lay(Scheme scheme, const planner::Network& network, const planner::Job& job) {
  const planner::Topology& topology = network.topology;
  const planner::Rates capacity = topology.rates();
  planner::Job wanted = job;
  wanted.shares.clear();  // by what servers can merge
  if (scheme != Scheme::kPlanned)
    wanted.shares.assign(job.servers.size(), 1.0 / static_cast<double>(job.servers.size()));
  if (scheme == Scheme::kEqualSplit || scheme == Scheme::kPlanned) {
    auto plan = planner::make_plan(network, wanted, capacity);
    if (!plan) return tl::unexpected<Error>(plan.error());
    return Laid{std::move(plan->tables), std::move(plan->spread), plan->rate, plan->promised};
  }
  const auto party = planner::party_of(topology, wanted, capacity);
  if (!party) return tl::unexpected<Error>(party.error());
  const auto at_home = [&](std::size_t rack, Index box) {
    return topology.boxes()[box].at == party->racks[rack].at;
  };
  const auto at_server = [&](Index box) {
    return std::any_of(
        party->servers.begin(), party->servers.end(),
        [&](const planner::Party::Server& server) { return server.at == topology.boxes()[box].at; });
  };
  auto best = planner::full_form(network, *party, capacity, [&](std::size_t rack, Index box) {
    if (scheme == Scheme::kLoadOnly) return false;
    return at_home(rack, box) || (scheme == Scheme::kServersRack && at_server(box));
  });
  if (!best) return tl::unexpected<Error>(best.error());
  Laid laid = laid_out(network, *party, capacity, std::move(*best));
  if (scheme == Scheme::kLoadOnly) return laid;
  Laid full_boxes =
      laid_out(network, *party, capacity, planner::closed_form_split(network, *party, capacity, true));
  full_boxes.at_best = laid.at_best;
  return full_boxes.rate > laid.rate ? full_boxes : laid;
}

}  // namespace tally::routes
