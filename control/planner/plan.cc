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

// Makes plans of splits of one job.
class Maker {
 public:
  Maker(const Network& network, const Party& party, const Rates& capacity)
      : network_(network), party_(party), capacity_(capacity), by_ecmp_(network, party, ecmp_) {}

  Plan rounded(Form form, Split split) {
    Plan plan{.form = form, .promised = split.rate};
    plan.tables = round_to_groups(split, party_);
    plan.spread = std::move(split.spread);
    with_model(plan, [&](LoadModel& model) { rate_plan(model, network_.topology, party_, capacity_, plan); });
    return plan;
  }
  // goal: Gbit/s that tables of this form could have.
  void mend(double goal, Plan& plan) {
    with_model(plan, [&](LoadModel& model) {
      if (repair(model, network_.topology, party_, capacity_, std::min(plan.promised, goal), plan.tables) > 0)
        rate_plan(model, network_.topology, party_, capacity_, plan);
    });
  }

 private:
  // Without chosen ways all plans have one model.
  template <class Use>
  void with_model(const Plan& plan, const Use& use) {
    if (plan.spread.empty()) return use(by_ecmp_);
    LoadModel model(network_, party_, plan.spread);
    use(model);
  }

  const Network& network_;
  const Party& party_;
  const Rates& capacity_;
  Spread ecmp_{};
  LoadModel by_ecmp_;
};

}  // namespace

Result<Split> solve_product(const Network& network, const Party& party, const Rates& capacity) {
  std::vector<Index> boxes = usable_boxes(network, party, capacity);
  constexpr std::size_t kMostShared = kBoxesOfWorker - 1;  // and the own rack's
  // Trees leave parts of the rest to no box.
  if (!party.through_boxes && product_form_columns(network, party, boxes) > kColumnsAtOnce)
    return product_form_by_trees(network, party, capacity, boxes, kMostShared);
  auto split = product_form(network, party, capacity, boxes);
  if (!split) return split;
  std::vector<Part> used = split->shared;
  std::erase_if(used, [](const Part& part) { return !(part.amount > 1e-9); });
  if (used.size() <= kMostShared) return split;
  // The others' part goes to those of most use.
  std::stable_sort(used.begin(), used.end(),
                   [](const Part& a, const Part& b) { return a.amount > b.amount; });
  boxes.clear();
  for (std::size_t i = 0; i < kMostShared; ++i) boxes.push_back(used[i].place);
  std::sort(boxes.begin(), boxes.end());
  return product_form(network, party, capacity, boxes);
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
  Maker maker(network, party, capacity);
  Plan best;
  const auto consider = [&](Plan plan) {
    if (plan.rate > best.rate) best = std::move(plan);
  };
  Plan any_box;
  if (Split split = closed_form_split(network, party, capacity, false); split.rate > 0)
    any_box = maker.rounded(Form::kAnyBox, std::move(split));
  // Of equals own racks, whose sums take no way. Their tables are not faster than they promise, so most need not be made.
  if (!party.servers.empty()) {
    constexpr double kHair = 1e-9;
    Split own_racks = closed_form_split(network, party, capacity, true);
    if (own_racks.rate > 0 && own_racks.rate * (1 + kHair) >= any_box.rate)
      consider(maker.rounded(Form::kOwnRacks, std::move(own_racks)));
  }
  consider(any_box);
  const double reachable = any_box.promised;  // the bound, if workers could speak to so many boxes only
  const auto mend_any_box = [&] {
    maker.mend(reachable, any_box);
    consider(std::move(any_box));
  };
  const bool near = any_box.rate > kNear * reachable;
  if (options.effort != Effort::kAtOnce && best.rate < kWell * reachable && near) mend_any_box();
  if (options.effort != Effort::kAtOnce && best.rate < kWell * reachable) {
    auto product = solve_product(network, party, capacity);
    if (product) {
      Plan plan = maker.rounded(Form::kProduct, std::move(*product));
      maker.mend(reachable, plan);
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
        Plan plan = maker.rounded(Form::kFull, std::move(*full));
        maker.mend(bound, plan);
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
