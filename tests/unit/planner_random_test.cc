// A thousand small networks: plans against a linear program with a column for each worker, their loads counted anew.

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "planner/closed_form.h"
#include "planner_support.h"

namespace tally::planner_test {
namespace {

using planner::Effort;
using planner::Results;
using planner::Routing;

constexpr std::uint64_t kParts = 4;
constexpr std::uint64_t kInstances = 1000 / kParts / TALLY_SEED_SHARE;
constexpr double kHair = 1e-7;  // of what a solver calls feasible

// Below the best and exactly what its tables carry; of the best at least `least`. Returns the share of the best.
double judge(const Instance& instance, Routing routing, Effort effort, double best) {
  const planner::Rates capacity = instance.topology.rates();
  planner::Ways ways(instance.topology);
  const planner::Network network{instance.topology, ways, routing};
  const auto plan = planner::make_plan(network, instance.job, capacity, {.effort = effort});
  if (!plan) {
    EXPECT_LE(best, effort == Effort::kAtOnce ? 1e9 : kHair) << plan.error().text();
    return 1;
  }
  EXPECT_LE(plan->rate, best * (1 + kHair));
  EXPECT_LE(plan->rate, plan->bound * (1 + kHair));
  const planner::Rates unit = counted_loads(instance, *plan, routing);
  EXPECT_NEAR(rate_by(capacity, unit), plan->rate, 1e-9 * plan->rate);
  for (std::size_t r = 0; r < unit.size(); ++r) {
    EXPECT_NEAR(plan->loads[r], unit[r] * plan->rate, 1e-9 * (1 + plan->loads[r]));
    EXPECT_LE(plan->loads[r], capacity[r] * (1 + 1e-9));
  }
  return best > 0 ? plan->rate / best : 1;
}

class PlannerRandom : public testing::TestWithParam<std::tuple<Routing, std::uint64_t>> {
 protected:
  static Routing routing() { return std::get<0>(GetParam()); }
  static std::uint64_t first() { return 1 + std::get<1>(GetParam()) * kInstances; }
};

TEST_P(PlannerRandom, PlansNeverExceedTheBestAndAreNearIt) {
  std::size_t near = 0;
  for (std::uint64_t seed = first(); seed < first() + kInstances; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_instance(seed, false);
    const planner::Rates capacity = instance.topology.rates();
    const auto party = planner::party_of(instance.topology, instance.job, capacity);
    ASSERT_TRUE(party);
    const double best = best_rate(instance, routing());
    EXPECT_LE(best, planner::upper_bound(instance.topology, *party, capacity) * (1 + kHair));
    planner::Ways ways(instance.topology);
    const planner::Network network{instance.topology, ways, routing()};
    const auto full = planner::full_form(network, *party, capacity, [](std::size_t, Index) { return true; });
    EXPECT_NEAR(full ? full->rate : 0, best, kHair * (1 + best));
    const auto product = planner::product_form(network, *party, capacity);
    EXPECT_LE(product ? product->rate : 0, best * (1 + kHair));
    judge(instance, routing(), Effort::kAtOnce, best);
    judge(instance, routing(), Effort::kProduct, best);
    if (judge(instance, routing(), Effort::kFull, best) >= 0.95) ++near;
    if (HasFailure()) return;
  }
  // A table is of 1,024 groups and ECMP leaves it no way to choose: of 1,000 with ECMP 957 are near, 982 with chosen ways.
  const std::size_t percent = TALLY_SEED_SHARE > 1 ? 90 : routing() == Routing::kEcmp ? 93 : 97;
  EXPECT_GE(near, kInstances * percent / 100);
  RecordProperty("near", static_cast<int>(near));
}

TEST_P(PlannerRandom, ClosedFormsAreExactWhereLinksBetweenSwitchesNeverBind) {
  for (std::uint64_t seed = first(); seed < first() + kInstances / 5; ++seed) {
    SCOPED_TRACE(seed);
    const Instance instance = random_instance(seed, true);
    const planner::Rates capacity = instance.topology.rates();
    const auto party = planner::party_of(instance.topology, instance.job, capacity);
    ASSERT_TRUE(party);
    const double best = best_rate(instance, routing());
    const double bound = planner::upper_bound(instance.topology, *party, capacity);
    EXPECT_LE(best, bound * (1 + kHair));
    EXPECT_LE(planner::rack_local_rate(instance.topology, *party, capacity), best * (1 + kHair));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Routings, PlannerRandom,
                         testing::Combine(testing::Values(Routing::kEcmp, Routing::kChosen),
                                          testing::Range(std::uint64_t{0}, kParts)),
                         [](const auto& instance) {
                           return (std::get<0>(instance.param) == Routing::kEcmp ? "Ecmp" : "Chosen") +
                                  std::to_string(std::get<1>(instance.param));
                         });

}  // namespace
}  // namespace tally::planner_test
