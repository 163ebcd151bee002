// Plans of a whole cluster: several jobs, slot memory, losses, what else they would have.

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "plan_tool/planned.h"
#include "plan_tool_scene.h"

namespace tally::plan_tool {
namespace {

using planner::Effort;
using testing::SizeIs;

const char* const kRack = "racks: [{name: r, hosts: 12, nic: 25G}]\n";

double compared(const PlannedCluster& planned, const std::string& name) {
  const plan_report::JobReport report = planned.report(planned.jobs[0]);
  const auto found = std::ranges::find(report.compared, name, &plan_report::Compared::name);
  EXPECT_NE(found, report.compared.end()) << name;
  return found == report.compared.end() ? -1 : found->rate.value_or(-1);
}

TEST(PlannedCluster, FourRacksHaveTheRatesOfTheClosedForms) {
  const cluster::Cluster c = example_cluster("leaf-spine");
  const PlannedCluster planned = plan_all(c, Effort::kFull, Compare::kAll);
  ASSERT_THAT(planned.jobs, SizeIs(1));
  const PlannedJob& job = planned.jobs[0];
  EXPECT_EQ(planned.report(job).racks, 4U);
  EXPECT_NEAR(compared(planned, "no_aggregation"), 12.5, 1e-6);
  EXPECT_NEAR(compared(planned, "own_rack"), 23.4375, 1e-6);
  EXPECT_NEAR(job.plan->bound, 24.609375, 1e-6);
  EXPECT_NEAR(job.ring, 25.0 * 32 / 62, 1e-9) << "2 (N - 1) / N over every host's link";
  EXPECT_FALSE(planned.report(job).ring_is_faster());
  EXPECT_GE(job.rate(), 0.95 * job.plan->bound);
  EXPECT_LE(job.rate(), job.plan->bound * (1 + 1e-9));
}

TEST(PlannedCluster, NothingIsAboveWhatItCanTake) {
  for (const char* const name : {"one-rack", "leaf-spine", "fat-tree"}) {
    const cluster::Cluster c = example_cluster(name);
    const PlannedCluster planned = plan_all(c, Effort::kProduct, Compare::kNothing);
    for (planner::Resource r = 0; r < planned.loads.size(); ++r)
      EXPECT_LE(planned.loads[r], planned.capacity[r] * (1 + 1e-9))
          << name << ": " << planned.topology.name_of(r);
  }
}

TEST(PlannedCluster, JobsShareABoxByTheirWorkers) {
  const cluster::Cluster c =
      cluster_of(std::string(kRack) +
                 "boxes: [{at: r, rate: 120G}]\njobs:\n"
                 "  - {name: small, workers: \"r-[1-4]\"}\n  - {name: large, workers: \"r-[5-12]\"}\n");
  const PlannedCluster planned = plan_all(c, Effort::kFull, Compare::kNothing);
  EXPECT_NEAR(planned.jobs[0].rate(), 10, 1e-6) << "120 Gbit/s over 12 workers";
  EXPECT_NEAR(planned.jobs[1].rate(), 10, 1e-6);
  EXPECT_NEAR(planned.total(), 120, 1e-5);
  EXPECT_EQ(planned.report(planned.jobs[0]).full, "box r") << "full by both together";
}

TEST(PlannedCluster, ARingIsNamedWhereItIsFaster) {
  const cluster::Cluster c = cluster_of(std::string(kRack) + "boxes: [{at: r, rate: 100G}]\n");
  const PlannedCluster planned = plan_all(c, Effort::kFull, Compare::kAll);
  EXPECT_NEAR(planned.jobs[0].rate(), 100.0 / 12, 1e-6);
  EXPECT_NEAR(planned.jobs[0].ring, 25.0 * 12 / 22, 1e-9);
  EXPECT_TRUE(planned.report(planned.jobs[0]).ring_is_faster());
}

// A box with M bytes of slots that 12 workers reach, each chunk for 100 us: 12 x M x 8 bits in that time.
TEST(PlannedCluster, SlotMemoryIsARate) {
  const std::string boxes = "boxes: [{at: r, rate: 300G, slots: 125KiB}]\n";
  const double rate = 12 * 125 * 1024 * 8e-9 / 100e-6;
  const cluster::Cluster c = cluster_of(kRack + boxes);
  const PlannedCluster planned = plan_all(c, Effort::kFull, Compare::kNothing);
  EXPECT_NEAR(planned.jobs[0].rate(), rate / 12, 1e-6);
  EXPECT_EQ(planned.report(planned.jobs[0]).full, "box r");
  const cluster::Cluster twice = cluster_of("slot_time: 200us\n" + (kRack + boxes));
  EXPECT_NEAR(plan_all(twice, Effort::kFull, Compare::kNothing).jobs[0].rate(), rate / 24, 1e-6);
  const cluster::Cluster plenty =
      cluster_of(std::string(kRack) + "boxes: [{at: r, rate: 300G, slots: 1GiB}]\n");
  EXPECT_NEAR(plan_all(plenty, Effort::kFull, Compare::kNothing).jobs[0].rate(), 25, 1e-6);
}

TEST(PlannedCluster, TwoJobsShareTheSlotsOfABox) {
  const cluster::Cluster c =
      cluster_of(std::string(kRack) +
                 "boxes: [{at: r, rate: 300G, slots: 125KiB}]\njobs:\n"
                 "  - {name: a, workers: \"r-[1-6]\"}\n  - {name: b, workers: \"r-[7-12]\"}\n");
  const PlannedCluster planned = plan_all(c, Effort::kFull, Compare::kNothing);
  double bytes = 0;  // under way
  for (const PlannedJob& job : planned.jobs) bytes += job.rate() * 1e9 / 8 * 100e-6;
  EXPECT_LE(bytes, 125 * 1024 * (1 + 1e-6));
  EXPECT_GE(bytes, 125 * 1024 * 0.95);
}

TEST(PlannedCluster, ALostBoxCostsNoMoreThanItBrought) {
  const cluster::Cluster c = example_cluster("leaf-spine");
  const double all = plan_all(c, Effort::kFull, Compare::kNothing).jobs[0].rate();
  const auto left = cluster::without(c, "box=rack1");
  ASSERT_TRUE(left.has_value());
  const PlannedCluster planned = plan_all(*left, Effort::kFull, Compare::kNothing);
  EXPECT_LT(planned.jobs[0].rate(), all);
  EXPECT_NEAR(planned.jobs[0].plan->bound, (400 + 31 * 300.0 / 32) / 32, 1e-6);
  EXPECT_GE(planned.jobs[0].rate(), 0.93 * planned.jobs[0].plan->bound);
}

TEST(PlannedCluster, AJobThatNothingReachesHasNoPlan) {
  const cluster::Cluster c = example_cluster("leaf-spine");
  const auto alone = cluster::without(c, "switch=rack1");
  ASSERT_TRUE(alone.has_value());
  const PlannedCluster planned = plan_all(*alone, Effort::kFull, Compare::kNothing);
  EXPECT_FALSE(planned.jobs[0].plan.has_value());
  EXPECT_EQ(planned.jobs[0].rate(), 0);
}

}  // namespace
}  // namespace tally::plan_tool
