// What is known in closed form, with values that were reckoned elsewhere.

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "planner/baselines.h"
#include "planner/closed_form.h"
#include "planner/plan.h"
#include "planner_support.h"

namespace tally::planner_test {
namespace {

using planner::any_box_rate;
using planner::rack_local_rate;
using planner::RackOfBox;

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

double of_racks(std::size_t racks, double workers, double box, double ingress, double nic) {
  return rack_local_rate(std::vector<RackOfBox>(racks, {workers, box}), ingress, nic);
}

TEST(PlannerClosedForm, TwoServersAndTwoBoxesMakeThreeOfSixWorkers) {
  EXPECT_DOUBLE_EQ(any_box_rate(6, 4 + 4, 6 + 6, kNoLimit), 3.0);
}

TEST(PlannerClosedForm, FortyAndFiftyWorkersOfTheFatTree) {
  EXPECT_DOUBLE_EQ(any_box_rate(40, 80, 45 * 9, kNoLimit), 11.871875);
  EXPECT_NEAR(any_box_rate(40, 80, 45 * 9, kNoLimit), 11.8725, 1e-3);
  EXPECT_DOUBLE_EQ(any_box_rate(50, 80, 45 * 9, kNoLimit), 9.538);
}

TEST(PlannerClosedForm, OwnRacksOfTheFatTree) {
  std::vector<RackOfBox> racks(14, {3, 9});
  racks.insert(racks.end(), 4, {2, 9});
  // Boxes of three are full, and those of two have more than their workers send: 50 f - 14 x 2 x 3 - 4 f = 80.
  EXPECT_DOUBLE_EQ(rack_local_rate(racks, 80, kNoLimit), 164.0 / 46);
}

TEST(PlannerClosedForm, RacksOfHundredGigabit) {
  EXPECT_DOUBLE_EQ(of_racks(4, 8, 100, 400, 25), 23.4375);
  EXPECT_DOUBLE_EQ(any_box_rate(32, 400, 400, 25), 24.609375);
  EXPECT_DOUBLE_EQ(of_racks(4, 8, 0, 400, 25), 12.5);
  EXPECT_DOUBLE_EQ(of_racks(8, 8, 100, 400, 25), 17.1875);
  EXPECT_DOUBLE_EQ(of_racks(16, 16, 100, 400, 25), 7.421875);
  EXPECT_DOUBLE_EQ(of_racks(64, 64, 100, 400, 25), 1.6357421875);
}

TEST(PlannerClosedForm, NobodySendsMoreThanItsCardCan) {
  EXPECT_DOUBLE_EQ(any_box_rate(2, 1000, 1000, 25), 25);
  EXPECT_DOUBLE_EQ(of_racks(2, 2, 1000, 1000, 25), 25);
}

TEST(PlannerClosedForm, BoxesOfRacksWithoutWorkersOrWithOneSaveNothing) {
  const std::array<RackOfBox, 3> racks{{{0, 100}, {1, 100}, {3, 0}}};
  EXPECT_DOUBLE_EQ(rack_local_rate(racks, 8, kNoLimit), 2);
}

TEST(PlannerClosedForm, TheRootOfRackLocalSatisfiesItsEquation) {
  const std::vector<RackOfBox> racks{{8, 40}, {3, 20}, {5, 0}, {2, 1}, {7, 100}};
  for (const double ingress : {1.0, 10.0, 40.0, 100.0, 300.0}) {
    const double f = rack_local_rate(racks, ingress, kNoLimit);
    double left = 0;
    for (const RackOfBox& rack : racks)
      left += rack.workers * f - (rack.workers - 1) * std::min(rack.box / rack.workers, f);
    EXPECT_NEAR(left, ingress, 1e-9 * ingress);
  }
}

TEST(PlannerClosedForm, MemoryIsARateAndBack) {
  // 8 workers, 4,096 slots of 1,024 bytes, taken for 100 us.
  const double rate = planner::memory_rate(8, 4096, 1024, 100e-6);
  EXPECT_DOUBLE_EQ(rate, 8 * 4096 * 1024 * 8e-9 / 100e-6);
  for (const std::uint64_t slots : {1U, 2U, 3U, 1000U, 4096U, 1'000'003U}) {
    const double carried = planner::memory_rate(8, slots, 1024, 100e-6);
    EXPECT_EQ(planner::slots_for(carried, 8, 1024, 100e-6), slots);
    EXPECT_EQ(planner::slots_for(carried * 1.0001, 8, 1024, 100e-6), slots + 1 + slots / 10'000);
  }
  EXPECT_EQ(planner::slots_for(0, 8, 1024, 100e-6), 0U);
}

// A job on hosts of two racks whose links never bind: what its servers' shares do to the bound.
planner::Topology two_racks(double box) {
  return planner::leaf_spine(
      {.racks = 2, .spines = 1, .hosts_per_rack = 4, .nic = 1000, .uplink = 1e6, .rack_box = box});
}

TEST(PlannerClosedForm, FrozenSharesThatDoNotFollowTheServersBindAtTheNarrowOne) {
  planner::Topology topology = two_racks(60);
  const Index wide = topology.add_server("wide", 0, 30);
  const Index narrow = topology.add_server("narrow", 4, 10);
  planner::Job job{.name = "j", .workers = {1, 2, 3, 5, 6, 7}, .servers = {wide, narrow}};
  const auto bound = [&] {
    const auto party = planner::party_of(topology, job, topology.rates());
    return planner::upper_bound(topology, *party, topology.rates());
  };
  // By what they can merge: the sum of both.
  EXPECT_NEAR(bound(), any_box_rate(6, 40, 120, kNoLimit), 1e-9);
  // In halves the narrow one has at most 10 / 0.5; and 3 f - 10 + max(0, 3 f - 30) = 5/6 x 120 holds at f = 23.3.
  job.shares = {0.5, 0.5};
  EXPECT_DOUBLE_EQ(bound(), 20);
  topology.set_rate(topology.server(narrow), 20);
  EXPECT_NEAR(bound(), 25, 1e-9);  // 3 f - 20 + 3 f - 30 = 100
}

TEST(PlannerClosedForm, AJobWithoutServersHasTheBoxesAlone) {
  planner::Topology topology = two_racks(60);
  const planner::Job job{.name = "j", .workers = {0, 1, 2, 3, 4, 5}};
  const auto party = planner::party_of(topology, job, topology.rates());
  EXPECT_DOUBLE_EQ(planner::upper_bound(topology, *party, topology.rates()), 20);
}

TEST(PlannerClosedForm, ARingOfFourRacksIsFasterThanWhatTwoLevelsHave) {
  planner::Topology topology = planner::leaf_spine(
      {.racks = 4, .spines = 1, .hosts_per_rack = 8, .nic = 25, .uplink = 400, .rack_box = 100});
  planner::Ways ways(topology);
  planner::Job job{.name = "j"};
  for (Index h = 0; h < 32; ++h) job.workers.push_back(h);
  const planner::Network network{topology, ways};
  EXPECT_NEAR(planner::ring_rate(network, job, topology.rates()), 25.0 * 32 / 62, 1e-9);
  // One stream in each direction crosses an uplink; a narrow one binds.
  const planner::Network narrow{topology, ways};
  planner::Rates capacity = topology.rates();
  for (Index l = 64; l < topology.links().size(); ++l) capacity[topology.link(l)] = 10;
  EXPECT_NEAR(planner::ring_rate(narrow, job, capacity), 10.0 * 32 / 62, 1e-9);
  // Two workers of one host need no link between them, and a worker alone no ring.
  job.workers = {0};
  job.demand = 3;
  EXPECT_DOUBLE_EQ(planner::ring_rate(network, job, capacity), 3);
}

}  // namespace
}  // namespace tally::planner_test
