// Jobs as a running tallyd has them: what no box merges goes through a box all the same, and of boxes each job has its
// own.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "planner/jobs.h"
#include "planner_support.h"

namespace tally::planner_test {
namespace {

using planner::Entry;
using planner::Form;

Instance four_racks(double box, double server) {
  Instance made{
      planner::leaf_spine(
          {.racks = 4, .spines = 2, .hosts_per_rack = 8, .nic = 25, .uplink = 400, .rack_box = box}),
      {.name = "vgg", .through_boxes = true}};
  for (Index h = 0; h < 32; ++h) made.job.workers.push_back(h);
  for (Index s = 0; s < 4; ++s) {
    const Index host = made.topology.add_host("ps", s, server, server);
    made.job.servers.push_back(made.topology.add_server("ps", host, server));
  }
  return made;
}

std::set<Index> boxes_in_use(const planner::Plan& plan) {
  std::set<Index> used;
  for (const auto& table : plan.tables.of_rack)
    for (const Entry& entry : table)
      used.insert(entry.box == Entry::kNoBox ? planner::kNone : plan.tables.boxes[entry.box]);
  return used;
}

planner::Plan planned(Instance& it, planner::Effort effort = planner::Effort::kFull) {
  planner::Ways ways(it.topology);
  auto plan = planner::make_plan({it.topology, ways}, it.job, it.topology.rates(), {.effort = effort});
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().what);
  return plan ? *plan : planner::Plan{};
}

// 400 Gbit/s of boxes for 32 workers; with streams around the boxes it would be 23.4.
TEST(PlannerThrough, NothingIsFasterThanItsBoxesTakeIn) {
  Instance it = four_racks(100, 100);
  for (const auto effort : {planner::Effort::kAtOnce, planner::Effort::kFull}) {
    const planner::Plan plan = planned(it, effort);
    EXPECT_NEAR(plan.rate, 12.5, 1e-9);
    EXPECT_FALSE(boxes_in_use(plan).contains(planner::kNone));
  }
  it.job.through_boxes = false;
  EXPECT_NEAR(planned(it).rate, 24.6, 0.5);
}

// Each rack's box has eight workers of 25 and is no narrower; every server hears of four racks, which own racks can
// have, and any box not: there the uplinks have everything.
TEST(PlannerThrough, OwnRacksWhereUplinksAreNarrow) {
  Instance it{planner::leaf_spine(
                  {.racks = 2, .spines = 1, .hosts_per_rack = 2, .nic = 10, .uplink = 10, .rack_box = 20}),
              {.name = "vgg", .through_boxes = true}};
  for (Index h = 0; h < 4; ++h) it.job.workers.push_back(h);
  for (Index s = 0; s < 2; ++s) {
    const Index host = it.topology.add_host("ps", s, 10, 10);
    it.job.servers.push_back(it.topology.add_server("ps", host, 10));
  }
  const planner::Plan plan = planned(it);
  EXPECT_EQ(plan.form, Form::kOwnRacks);
  EXPECT_NEAR(plan.rate, 10, 1e-9);
  for (std::size_t r = 0; r < 2; ++r)
    for (const Entry& entry : plan.tables.of_rack[r]) ASSERT_EQ(plan.tables.boxes[entry.box], r);
}

TEST(PlannerThrough, AJobHasItsOwnBoxesAlone) {
  Instance it = four_racks(100, 100);
  it.job.boxes = {{1}, {3}};
  for (const auto effort : {planner::Effort::kAtOnce, planner::Effort::kFull}) {
    const planner::Plan plan = planned(it, effort);
    EXPECT_EQ(boxes_in_use(plan), (std::set<Index>{1, 3}));
    EXPECT_NEAR(plan.rate, 6.25, 1e-9);
  }
  it.job.boxes = {{1}, {3, 50}};  // the second finds slots for half of what it takes in
  EXPECT_NEAR(planned(it).rate, 150.0 / 32, 0.01);
  it.job.boxes = {{4}};
  planner::Ways ways(it.topology);
  EXPECT_FALSE(planner::make_plan({it.topology, ways}, it.job, it.topology.rates()))
      << "there is no such box";
}

// Two jobs of different boxes do not share what only one of them may use.
TEST(PlannerThrough, JobsShareOnlyTheBoxesOfBoth) {
  Instance it = four_racks(100, 100);
  std::vector<planner::Job> jobs{it.job, it.job};
  jobs[0].workers.resize(16);
  jobs[1].workers.erase(jobs[1].workers.begin(), jobs[1].workers.begin() + 16);
  jobs[0].boxes = {{0}, {1}};
  jobs[1].boxes = {{2}, {3}};
  planner::Ways ways(it.topology);
  for (const auto& plan : planner::make_plans({it.topology, ways}, jobs, it.topology.rates())) {
    ASSERT_TRUE(plan);
    EXPECT_NEAR(plan->rate, 12.5, 0.05);
  }
}

// Random networks: the loads of tables counted again, worker by worker, give the rate, and nothing stands in them that
// goes around the boxes.
TEST(PlannerThrough, TablesOfOddNetworksKeepToBoxes) {
  std::size_t made = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Instance it = random_instance(seed, false);
    it.job.through_boxes = true;
    if (it.job.servers.empty()) continue;
    planner::Ways ways(it.topology);
    for (const auto effort : {planner::Effort::kAtOnce, planner::Effort::kFull}) {
      const auto plan =
          planner::make_plan({it.topology, ways}, it.job, it.topology.rates(), {.effort = effort});
      if (!plan) continue;
      ++made;
      EXPECT_FALSE(boxes_in_use(*plan).contains(planner::kNone)) << seed;
      const double counted = rate_by(it.topology.rates(), counted_loads(it, *plan, planner::Routing::kEcmp));
      EXPECT_NEAR(plan->rate, std::min(counted, it.job.demand), 1e-9 * counted) << seed;
      EXPECT_LE(plan->rate, plan->bound * (1 + 1e-9)) << seed;
    }
  }
  EXPECT_GT(made, 20U);
}

}  // namespace
}  // namespace tally::planner_test
