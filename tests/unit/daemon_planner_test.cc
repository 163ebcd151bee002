// The file of the cluster as tallyd takes it, and what its planner shows.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load_config.h"
#include "config/reload_plan.h"
#include "daemon/plan_status.h"
#include "daemon/planner_link.h"
#include "planning_support.h"

namespace tally::daemon_test {
namespace {

using planning::at;
using planning::four_workers;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

config::Config config_of(const std::string& more) {
  auto loaded = config::load_config_text(
      "box: {ipv4: 10.0.1.1/24}\nports:\n  - {name: w0, device: net_ring0}\n" + more, "box.yaml");
  EXPECT_TRUE(loaded.has_value()) << (loaded ? "" : config::to_text(loaded.error()));
  return loaded ? std::move(loaded->config) : config::Config{};
}

TEST(DaemonPlanner, MistakesOfTheClusterHaveItsOwnLines) {
  const std::string path = testing::TempDir() + "tally_daemon_planner_cluster.yaml";
  std::ofstream(path) << "leaf_spine: {racks: 2, spines: 1, hosts: 2, nic: 10G, uplink: 10G}\n"
                         "boxes: [{at: rakc1, rate: 10G}]\n";
  const auto wrong = daemon::read_cluster({path});
  std::filesystem::remove(path);
  ASSERT_FALSE(wrong.has_value());
  EXPECT_THAT(config::to_text(wrong.error()),
              HasSubstr(path + ":2:14: error: boxes[0].at: there is no switch"));
  const auto gone = daemon::read_cluster({path});
  ASSERT_FALSE(gone.has_value());
  EXPECT_THAT(config::to_text(gone.error()), HasSubstr(path));
  const auto none = daemon::read_cluster({});
  ASSERT_TRUE(none.has_value());
  EXPECT_EQ(*none, nullptr);
}

TEST(DaemonPlanner, AnotherFileNeedsNoRestart) {
  const config::ReloadPlan plan =
      config::plan_reload(config_of(""), config_of("planner: {cluster: /etc/tally/cluster.yaml}\n"));
  EXPECT_THAT(plan.restart, IsEmpty());
  ASSERT_TRUE(plan.planner.has_value());
  EXPECT_EQ(plan.planner->cluster, "/etc/tally/cluster.yaml");
}

TEST(DaemonPlanner, ShowsItsJobsAndTheClusterWithTheirLoads) {
  planning::Desk desk = daemon::make_desk(config_of(""));
  const auto facts = four_workers("vgg");
  const auto ask = [&](std::uint64_t usable) {
    (void)desk.plan({.job = facts.job,
                     .world = 4,
                     .servers = 2,
                     .addresses = facts.boxes,
                     .usable = usable,
                     .rank_addresses = facts.ranks,
                     .server_addresses = facts.servers},
                    kSecond);
  };
  ask(3);
  api::PlanStatus status = daemon::plan_status(desk, "", {at(1, 1)});
  ASSERT_THAT(status.jobs, SizeIs(1));
  EXPECT_THAT(status.jobs[0].report.why_not, HasSubstr("planner.cluster"));
  EXPECT_THAT(status.topology.switches, IsEmpty());

  desk.set_cluster(planning::two_racks(), kSecond);
  ask(1);
  desk.saw("vgg", {.running = true, .epoch = Epoch{7}, .left_out = 2}, 2 * kSecond);
  status = daemon::plan_status(desk, "c.yaml", {at(1, 1)});
  ASSERT_THAT(status.jobs, SizeIs(1));
  const api::PlannedJob& job = status.jobs[0];
  EXPECT_EQ(job.report.why_not, "");
  EXPECT_EQ(job.report.name, "vgg");
  EXPECT_GT(job.report.rate, 0);
  EXPECT_EQ(job.why, "lost: the box at 10.0.2.1");
  EXPECT_EQ(job.effort, "at once");
  EXPECT_EQ(job.epoch, 7U);
  ASSERT_THAT(status.topology.switches, SizeIs(3));
  EXPECT_EQ(status.topology.switches[0].workers, 2U);
  EXPECT_EQ(status.topology.switches[0].hosts, 4U) << "its server has one";
  EXPECT_GT(status.topology.switches[0].nic_load, 0);
  ASSERT_THAT(status.topology.boxes, SizeIs(2));
  EXPECT_TRUE(status.topology.boxes[0].here);
  EXPECT_GT(status.topology.boxes[0].load, 0);
  EXPECT_EQ(status.topology.boxes[1].state, api::PlaceState::kLost);
  EXPECT_THAT(status.topology.links, SizeIs(4));
  std::uint64_t changes = 0;
  for (const auto& change : status.changes) changes += change.count;
  EXPECT_EQ(changes, 1U);
}

}  // namespace
}  // namespace tally::daemon_test
