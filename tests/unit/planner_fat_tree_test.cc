// The fat tree of the literature (k = 6, 54 hosts, 10 to 50 workers): values of an implementation in another language,
// and how much of them is left when chunk groups are whole.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "planner/baselines.h"
#include "planner/closed_form.h"
#include "planner_support.h"

namespace tally::planner_test {
namespace {

using planner::Routing;

struct Known {
  double full = 0;
  double product = 0;
  double own_or_server_rack = 0;
  double own_rack = 0;
  double no_aggregation = 0;
  double rounded = 0;  // to 1,024 groups, by an implementation that does not mend them
  double saved = 0;    // of the time of own or server's rack
};

// Seed 1; by whether links are unlike and by workers.
const std::map<std::pair<bool, Index>, Known> kKnown{
    {{false, 10}, {20.000, 20.000, 11.690, 8.450, 8.000, 19.609, 0.40}},
    {{false, 20}, {20.000, 20.000, 6.610, 5.350, 4.000, 19.200, 0.66}},
    {{false, 30}, {15.717, 15.717, 5.018, 4.261, 2.667, 15.360, 0.67}},
    {{false, 40}, {11.872, 11.872, 4.554, 3.867, 2.000, 11.520, 0.61}},
    {{false, 50}, {9.538, 9.538, 3.986, 3.565, 1.600, 9.216, 0.57}},
    {{true, 10}, {14.115, 14.115, 10.608, 5.267, 4.740, 13.964, 0.24}},
    {{true, 20}, {10.008, 10.008, 6.061, 3.386, 2.370, 10.008, 0.39}},
    {{true, 30}, {10.008, 10.008, 4.653, 2.788, 1.580, 9.910, 0.53}},
    {{true, 40}, {10.008, 10.008, 4.225, 2.633, 1.185, 10.008, 0.58}},
    {{true, 50}, {9.322, 8.886, 3.769, 2.633, 0.948, 8.777, 0.57}}};

class PlannerFatTree : public testing::TestWithParam<std::tuple<int, bool, Index>> {};

TEST_P(PlannerFatTree, LinearProgramsAsKnownAndTablesNearThem) {
  const auto [seed, unlike, workers] = GetParam();
  const Instance instance = fat_tree_instance(workers, static_cast<std::uint64_t>(seed), unlike);
  const planner::Topology& topology = instance.topology;
  const planner::Rates capacity = topology.rates();
  planner::Ways ways(topology);
  const planner::Network network{topology, ways, Routing::kChosen};
  const auto party = planner::party_of(topology, instance.job, capacity);
  const auto product = planner::product_form(network, *party, capacity);
  const auto full = planner::full_form(network, *party, capacity, [](std::size_t, Index) { return true; });
  const auto plan = planner::make_plan(network, instance.job, capacity);
  ASSERT_TRUE(product && full && plan);
  const auto others = planner::baselines_of(network, instance.job, capacity, *plan);
  ASSERT_TRUE(others);
  if (seed == 1) {
    const Known& known = kKnown.at({unlike, workers});
    EXPECT_NEAR(full->rate, known.full, 6e-4);
    EXPECT_NEAR(product->rate, known.product, 6e-4);
    EXPECT_NEAR(others->own_or_server_rack.value(), known.own_or_server_rack, 6e-4);
    EXPECT_NEAR(others->own_rack.value(), known.own_rack, 6e-4);
    EXPECT_NEAR(others->no_aggregation.value(), known.no_aggregation, 6e-4);
    EXPECT_GE(plan->rate, known.rounded - 6e-4);
    EXPECT_GE(1 - others->own_or_server_rack.value() / plan->rate, known.saved - 0.006);
  }
  // No plan exceeds the full form, and that not the closed form.
  EXPECT_LE(plan->rate, full->rate * (1 + 1e-9));
  EXPECT_LE(product->rate, full->rate * (1 + 1e-9));
  EXPECT_LE(full->rate, planner::upper_bound(topology, *party, capacity) * (1 + 1e-9));
  EXPECT_GE(plan->rate, 0.95 * full->rate);
  EXPECT_NEAR(rate_by(capacity, counted_loads(instance, *plan, Routing::kChosen)), plan->rate,
              1e-9 * plan->rate);
  // Half the time of ATP or less (as a mixture better than ATP's own choice), unless a worker's own link is full.
  const double atp = others->own_or_server_rack.value();
  EXPECT_GE(plan->rate, workers >= 30 ? std::min(2 * atp, 0.99 * party->slowest) : atp);
  // What was published rounds worker by worker.
  EXPECT_LT(others->independent.value(), plan->rate);
}

INSTANTIATE_TEST_SUITE_P(ThirtyInstances, PlannerFatTree,
                         testing::Combine(testing::Range(1, 1 + 3 / TALLY_SEED_SHARE), testing::Bool(),
                                          testing::Values(10U, 20U, 30U, 40U, 50U)),
                         [](const auto& instance) {
                           return "Seed" + std::to_string(std::get<0>(instance.param)) +
                                  (std::get<1>(instance.param) ? "Unlike" : "Like") +
                                  std::to_string(std::get<2>(instance.param));
                         });

}  // namespace
}  // namespace tally::planner_test
