#include "planner/plan.h"

#include <algorithm>
#include <limits>

#include "planner/closed_form.h"
#include "planner/repair.h"
#include "planner/rounding.h"
#include "planner/trees.h"

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

constexpr double kFullPromises = 1.05;  // times what is there already
// Of the bound. What reaches it is good enough, and nobody looks further.
constexpr double kWell = 0.97;
// Of the bound. A closed form that comes so near before its links have been asked is mended before a program is
// solved, and one that comes not so near afterwards, if that does not do.
constexpr double kNear = 0.9;
constexpr double kMendable = 0.6;
// With more columns the product form is sought by trees.
constexpr std::size_t kColumnsAtOnce = 8'000;

tl::unexpected<Error> nothing_left(const std::string& job) {
  return fail(ErrorCode::kInvalidArgument,
              "nothing is left for this job: a link, a box or a server that it needs is down or full", job);
}

void rate_plan(LoadModel& model, const Topology& topology, const Party& party, const Rates& capacity,
               Plan& plan) {
  plan.loads = unit_loads(model, topology, party, plan.tables);
  const Rated rated = rate_of(topology, party, capacity, plan.loads);
  plan.rate = rated.rate;
  plan.binding = rated.binding;
  for (double& load : plan.loads) load = load > 0 && plan.rate > 0 ? load * plan.rate : 0;
}

Plan rounded(const Network& network, const Party& party, const Rates& capacity, Form form, Split split) {
  Plan plan{.form = form, .promised = split.rate};
  plan.tables = round_to_groups(split, party);
  plan.spread = std::move(split.spread);
  LoadModel model(network, party, plan.spread);
  rate_plan(model, network.topology, party, capacity, plan);
  return plan;
}

void mend(const Network& network, const Party& party, const Rates& capacity, double bound, Plan& plan) {
  LoadModel model(network, party, plan.spread);
  const double goal = std::min(plan.promised, bound);
  if (repair(model, network.topology, party, capacity, goal, plan.tables) > 0)
    rate_plan(model, network.topology, party, capacity, plan);
}

}  // namespace

Result<Split> solve_product(const Network& network, const Party& party, const Rates& capacity) {
  std::vector<Index> boxes = usable_boxes(network, party, capacity);
  const auto solve = [&] {
    const bool at_once = product_form_columns(network, party, boxes) <= kColumnsAtOnce;
    return at_once ? product_form(network, party, capacity, boxes)
                   : product_form_by_trees(network, party, capacity, boxes);
  };
  auto split = solve();
  if (!split) return split;
  // A worker can speak to so many boxes, its own rack's among them: the others' part goes to those of most use.
  std::vector<Part> used = split->shared;
  std::erase_if(used, [](const Part& part) { return !(part.amount > 1e-9); });
  if (used.size() < kBoxesOfWorker) return split;
  std::stable_sort(used.begin(), used.end(),
                   [](const Part& a, const Part& b) { return a.amount > b.amount; });
  boxes.clear();
  for (std::size_t i = 0; i + 1 < kBoxesOfWorker; ++i) boxes.push_back(used[i].place);
  std::sort(boxes.begin(), boxes.end());
  return solve();
}

Result<Plan> make_plan(const Network& network, const Job& job, const Rates& capacity,
                       const Options& options) {
  const auto party = party_of(network.topology, job, capacity);
  if (!party) return tl::unexpected<Error>(party.error());
  return make_plan(network, job.name, *party, capacity, options);
}

Result<Plan> make_plan(const Network& network, const std::string& job, const Party& party,
                       const Rates& capacity, const Options& options) {
  double bound = upper_bound(network.topology, party, capacity);
  if (!(bound > 0)) return nothing_left(job);
  Plan best;
  const auto consider = [&](Plan plan) {
    if (plan.rate > best.rate) best = std::move(plan);
  };
  if (!party.servers.empty())
    consider(rounded(network, party, capacity, Form::kOwnRacks,
                     closed_form_split(network, party, capacity, true)));
  Plan any_box =
      rounded(network, party, capacity, Form::kAnyBox, closed_form_split(network, party, capacity, false));
  consider(any_box);
  const double reachable = any_box.promised;  // the bound, if workers could speak to so many boxes only
  const auto mend_any_box = [&] {
    mend(network, party, capacity, reachable, any_box);
    consider(std::move(any_box));
  };
  const bool near = any_box.rate > kNear * reachable;
  if (options.effort != Effort::kAtOnce && best.rate < kWell * reachable && near) mend_any_box();
  if (options.effort != Effort::kAtOnce && best.rate < kWell * reachable) {
    auto product = solve_product(network, party, capacity);
    if (product) {
      Plan plan = rounded(network, party, capacity, Form::kProduct, std::move(*product));
      mend(network, party, capacity, reachable, plan);
      consider(std::move(plan));
    }
    if (best.rate < kWell * reachable && !near && any_box.rate > kMendable * reachable) mend_any_box();
  }
  if (options.effort == Effort::kFull && kFullPromises * best.rate < bound && !party.servers.empty() &&
      full_form_columns(network, party, capacity) <= options.most_columns) {
    auto full = full_form(network, party, capacity, [](std::size_t, Index) { return true; });
    if (full) {
      bound = std::min(bound, full->rate);
      if (full->rate > kFullPromises * best.rate) {
        Plan plan = rounded(network, party, capacity, Form::kFull, std::move(*full));
        mend(network, party, capacity, bound, plan);
        consider(std::move(plan));
      }
    }
  }
  if (!(best.rate > 0)) return nothing_left(job);
  best.job = job;
  best.bound = bound;
  return best;
}

}  // namespace tally::planner
