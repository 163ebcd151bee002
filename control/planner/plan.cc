#include "planner/plan.h"

#include <algorithm>
#include <limits>

#include "planner/closed_form.h"
#include "planner/repair.h"
#include "planner/rounding.h"

namespace tally::planner {

const char* name_of(Form form) noexcept {
  switch (form) {
    case Form::kOwnRacks:
      return "own racks";
    case Form::kAnyBox:
      return "any box";
    case Form::kProduct:
      return "product form";
    case Form::kFull:
      return "full form";
  }
  return "?";
}

namespace {

constexpr double kFullPromises = 1.05;   // times what is there already
constexpr double kReachesBound = 0.995;  // of the bound: no need to look further

Plan plan_of(const Network& network, const Party& party, const Rates& capacity, Form form, Split split) {
  const Topology& topology = network.topology;
  Plan plan{.form = form, .promised = split.rate};
  plan.spread = std::move(split.spread);
  LoadModel model(network, party, plan.spread);
  plan.tables = round_to_groups(split, party);
  repair(model, topology, party, capacity, split.rate, plan.tables);
  plan.loads = unit_loads(model, topology, party, plan.tables);
  const Rated rated = rate_of(topology, party, capacity, plan.loads);
  plan.rate = rated.rate;
  plan.binding = rated.binding;
  for (double& load : plan.loads) load = load > 0 ? load * plan.rate : 0;
  return plan;
}

}  // namespace

Result<Plan> make_plan(const Network& network, const Job& job, const Rates& capacity,
                       const Options& options) {
  const auto party = party_of(network.topology, job, capacity);
  if (!party) return tl::unexpected<Error>(party.error());
  return make_plan(network, job.name, *party, capacity, options);
}

Result<Plan> make_plan(const Network& network, const std::string& job, const Party& party,
                       const Rates& capacity, const Options& options) {
  double bound = upper_bound(network.topology, party, capacity);
  if (!(bound > 0))
    return fail(ErrorCode::kInvalidArgument,
                "nothing is left for this job: a link, a box or a server that it needs is down or full", job);
  Plan best;
  const auto better = [&](Form form, Split split) {
    Plan plan = plan_of(network, party, capacity, form, std::move(split));
    if (plan.rate > best.rate) best = std::move(plan);
  };
  if (!party.servers.empty()) better(Form::kOwnRacks, closed_form_split(network, party, capacity, true));
  if (best.rate < kReachesBound * bound)
    better(Form::kAnyBox, closed_form_split(network, party, capacity, false));
  if (options.effort != Effort::kAtOnce && best.rate < kReachesBound * bound) {
    auto product = product_form(network, party, capacity);
    if (product) better(Form::kProduct, std::move(*product));
  }
  if (options.effort == Effort::kFull && kFullPromises * best.rate < bound && !party.servers.empty() &&
      full_form_columns(network, party, capacity) <= options.most_columns) {
    auto full = full_form(network, party, capacity, [](std::size_t, Index) { return true; });
    if (full) {
      bound = std::min(bound, full->rate);
      if (full->rate > kFullPromises * best.rate) better(Form::kFull, std::move(*full));
    }
  }
  if (!(best.rate > 0))
    return fail(ErrorCode::kInvalidArgument,
                "nothing is left for this job: a link, a box or a server that it needs is down or full", job);
  best.job = job;
  best.bound = std::max(bound, best.rate);
  return best;
}

}  // namespace tally::planner
