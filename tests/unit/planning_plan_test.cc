// Addresses and a cluster in, plans as they travel out.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/cluster_file.h"
#include "planning/locate.h"
#include "planning/running_plan.h"
#include "planning_support.h"

namespace tally::planning {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string why_not(const JobFacts& facts) {
  const auto cluster = two_racks();
  const auto jobs = located(*cluster, std::span(&facts, 1));
  return jobs[0] ? "" : jobs[0].error().what;
}

TEST(PlanningLocate, FindsEverybodyByAddress) {
  const auto cluster = two_racks();
  JobFacts facts = four_workers("vgg");
  facts.servers = {at(2, 9), at(1, 8)};
  facts.ranks[3] = at(2, 9);  // beside a server
  const auto jobs = located(*cluster, std::span(&facts, 1));
  ASSERT_TRUE(jobs[0]) << jobs[0].error().what;
  const planner::Job& job = *jobs[0];
  EXPECT_TRUE(job.through_boxes);
  EXPECT_EQ(cluster->servers[job.servers[0]].name, "ps2");
  EXPECT_EQ(cluster->servers[job.servers[1]].name, "ps1");
  std::vector<std::string> hosts;
  for (const planner::Index host : job.workers) hosts.push_back(cluster->hosts[host].name);
  EXPECT_THAT(hosts, ElementsAre("rack1-1", "rack1-2", "rack2-1", "ps2"));
  ASSERT_EQ(job.boxes.size(), 2U);
  EXPECT_EQ(cluster->boxes[job.boxes[1].box].name, "rack2");
}

TEST(PlanningLocate, AnAddressIsOneHostForAllJobs) {
  const auto cluster = two_racks();
  const std::vector<JobFacts> facts{four_workers("a"), four_workers("b")};
  const auto jobs = located(*cluster, facts);
  ASSERT_TRUE(jobs[0] && jobs[1]);
  EXPECT_EQ(jobs[0]->workers, jobs[1]->workers);
  EXPECT_EQ(jobs[0]->servers, jobs[1]->servers);
}

TEST(PlanningLocate, SaysWhoIsNowhere) {
  JobFacts facts = four_workers("vgg");
  facts.ranks[2] = mapped({192, 168, 0, 7});
  EXPECT_EQ(
      why_not(facts),
      "rank 2 at 192.168.0.7 is in no rack of the cluster file: write its network there (racks[].addresses "
      "or places)");
  facts = four_workers("vgg");
  facts.servers[1] = at(1, 77);
  EXPECT_EQ(why_not(facts), "server 1 at 10.0.1.77: rack1 has no further server in the cluster file");
  facts = four_workers("vgg");
  for (std::uint8_t host = 20; host < 24; ++host) facts.ranks.push_back(at(1, host));
  EXPECT_THAT(why_not(facts), HasSubstr("rack1 has no further host in the cluster file"));
  facts = four_workers("vgg");
  facts.boxes[1] = at(2, 250);
  EXPECT_EQ(why_not(facts),
            "the box at 10.0.2.250 is none of the cluster file: write its address there (boxes[].address)");
  facts.usable = 1;
  EXPECT_EQ(why_not(facts), "") << "nobody needs it";
}

// Two workers of 10 in each rack, boxes of 20, an uplink of 10 and servers of 10: all that works is own racks.
TEST(PlanningPlan, RacksUseTheirOwnBoxesWhereUplinksAreNarrow) {
  Ground ground(two_racks());
  const JobFacts facts = four_workers("vgg");
  const auto plans = plan_together(ground, std::span(&facts, 1), planner::Effort::kFull);
  ASSERT_TRUE(plans[0].planned()) << plans[0].why_not;
  EXPECT_TRUE(members::fits(plans[0].plan, request_of(facts)));
  EXPECT_NEAR(plans[0].made.rate, 10, 1e-9);
  for (std::uint32_t group = 0; group < kPlanGroups; ++group) {
    const Chunk chunk{group};
    for (std::uint16_t rank = 0; rank < 4; ++rank) {
      const Route route = plans[0].plan.route(Rank{rank}, chunk);
      ASSERT_EQ(plans[0].plan.boxes[route.box], facts.boxes[rank / 2]);
      ASSERT_FALSE(route.direct);
    }
  }
}

TEST(PlanningPlan, OnlyUsableBoxesHavePart) {
  Ground ground(two_racks());
  JobFacts facts = four_workers("vgg");
  facts.usable = 2;
  for (const auto& plan : {plan_together(ground, std::span(&facts, 1), planner::Effort::kFull)[0],
                           plan_at_once(ground, std::span(&facts, 1), {})}) {
    ASSERT_TRUE(plan.planned()) << plan.why_not;
    EXPECT_THAT(plan.plan.boxes, ElementsAre(facts.boxes[1]));
    EXPECT_EQ(plan.plan.tables.size(), 1U) << "racks with the same routes share a table";
    EXPECT_TRUE(members::fits(plan.plan, request_of(facts)));
  }
}

TEST(PlanningPlan, AServerOfTwiceTheWidthHasTwiceTheGroups) {
  Ground ground(
      cluster_of("leaf_spine: {racks: 2, spines: 1, hosts: 2, nic: 10G, uplink: 40G}\n"
                 "places: [{rack: \"rack[1-2]\", addresses: \"10.0.[1-2].0/24\"}]\n"
                 "boxes: [{at: racks, rate: 40G, address: \"10.0.[1-2].1\"}]\n"
                 "servers:\n"
                 "  - {name: ps1, rack: rack1, nic: 5G}\n"
                 "  - {name: ps2, rack: rack2, nic: 10G}\n"));
  const JobFacts facts = four_workers("vgg");
  const auto plan = plan_at_once(ground, std::span(&facts, 1), {});
  ASSERT_TRUE(plan.planned()) << plan.why_not;
  const auto first = std::count(plan.plan.servers.begin(), plan.plan.servers.end(), 0);
  EXPECT_NEAR(static_cast<double>(first), kPlanGroups / 3.0, 1);
}

TEST(PlanningPlan, ASetRateAndALimitAreKeptTo) {
  const JobFacts facts = four_workers("vgg");
  Ground half(two_racks(), {{"box rack1", 10}, {"nonsense", 1}});
  const auto slow = plan_at_once(half, std::span(&facts, 1), {});
  ASSERT_TRUE(slow.planned());
  EXPECT_LT(slow.made.rate, 8);
  Ground ground(two_racks());
  const std::vector<BoxLimit> limits{{"vgg", facts.boxes[0], 10}, {"other", facts.boxes[1], 1}};
  EXPECT_NEAR(plan_at_once(ground, std::span(&facts, 1), {}, limits).made.rate, slow.made.rate, 1e-9);
}

TEST(PlanningPlan, WhatOthersLeaveIsShared) {
  Ground ground(two_racks());
  const std::vector<JobFacts> facts{four_workers("a"), four_workers("b")};
  const auto both = plan_together(ground, facts, planner::Effort::kFull);
  ASSERT_TRUE(both[0].planned() && both[1].planned());
  EXPECT_NEAR(both[0].made.rate, 5, 0.05);
  EXPECT_NEAR(both[1].made.rate, 5, 0.05);
  // Beside one that has everything a new job counts on its share.
  const auto alone = plan_together(ground, std::span(facts.data(), 1), planner::Effort::kFull);
  EXPECT_NEAR(plan_at_once(ground, facts, alone[0].made.loads).made.rate, 5, 0.05);
  EXPECT_NEAR(rate_in(ground.topology(), alone[0], both[0].job, both[0].room), 5, 0.05);
}

// Whatever the network and whoever is where: a plan is one that membership takes, of usable boxes alone, and no chunk
// goes around them.
TEST(PlanningPlan, EveryPlanFitsItsJob) {
  std::size_t planned = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 dice(seed);
    const auto below = [&dice](std::uint64_t n) { return dice() % n; };
    const std::uint64_t racks = 1 + below(5);
    const std::string rack_names = "rack[1-" + std::to_string(racks) + "]";
    std::string text =
        "leaf_spine: {racks: " + std::to_string(racks) + ", spines: " + std::to_string(1 + below(2)) +
        ", hosts: 6, nic: 10G, uplink: " + std::to_string(5 + below(30)) + "G}\n" + "places: [{rack: \"" +
        rack_names + "\", addresses: \"10.0.[1-" + std::to_string(racks) +
        "].0/24\"}]\nservers: [{name: \"ps[1-4]\", rack: \"" + rack_names +
        "\", nic: " + std::to_string(2 + below(20)) +
        "G}]\nboxes:\n  - {at: racks, rate: " + std::to_string(5 + below(50)) + "G, address: \"10.0.[1-" +
        std::to_string(racks) + "].1\"}\n  - {at: spine1, rate: 20G, address: 10.0.99.1}\n";
    Ground ground(cluster_of(text));
    std::vector<JobFacts> jobs(1 + below(3));
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      JobFacts& facts = jobs[j];
      facts.job = "job" + std::to_string(j);
      for (std::uint64_t rank = 1 + below(8); rank > 0; --rank)
        facts.ranks.push_back(
            at(static_cast<std::uint8_t>(1 + below(racks)), static_cast<std::uint8_t>(10 + below(4))));
      for (std::uint64_t server = 0; server < 1 + seed % 4; ++server)
        facts.servers.push_back(at(static_cast<std::uint8_t>(1 + server % racks),
                                   static_cast<std::uint8_t>(100 + server / racks)));
      for (std::uint64_t box = 1; box <= racks; ++box)
        facts.boxes.push_back(at(static_cast<std::uint8_t>(box), 1));
      if (below(2) == 0) facts.boxes.push_back(at(99, 1));
      facts.usable = 1 + below((std::uint64_t{1} << facts.boxes.size()) - 1);
    }
    auto plans = plan_together(ground, jobs, planner::Effort::kFull);
    plans.push_back(plan_at_once(ground, jobs, {}));
    jobs.push_back(jobs.back());
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      if (!plans[j].planned()) {
        EXPECT_THAT(plans[j].why_not, HasSubstr("nothing is left")) << seed;
        continue;
      }
      ++planned;
      EXPECT_TRUE(members::fits(plans[j].plan, request_of(jobs[j]))) << seed;
      EXPECT_GE(rate_in(ground.topology(), plans[j], plans[j].job, plans[j].room),
                plans[j].made.rate * (1 - 1e-9))
          << seed << ": it is told the rate that its room has";
      const RunningPlan read = plan_of_another(ground, {&jobs[j], 1}, {}, plans[j].plan);
      EXPECT_EQ(read.why_not, "") << seed;
      EXPECT_EQ(read.made.tables, plans[j].made.tables) << seed << ": who is told it knows what it brings";
      EXPECT_GE(read.made.rate, plans[j].made.rate * (1 - 1e-9)) << seed;
      EXPECT_GE(read.made.bound, read.made.rate * (1 - 1e-9)) << seed << ": and what no plan exceeds";
      for (const RouteTable& table : plans[j].plan.tables)
        EXPECT_TRUE(std::ranges::none_of(table, &Route::direct)) << seed;
    }
  }
  EXPECT_GT(planned, 100U);
}

// What the control thread waits for when an epoch is offered.
TEST(PlanningPlan, AtOnceIsCheap) {
  Ground ground(many_racks());
  const std::vector<JobFacts> jobs = eight_wide_jobs();
  auto best = std::chrono::nanoseconds::max();
  for (int run = 0; run < 3; ++run) {
    const auto began = std::chrono::steady_clock::now();
    const auto plan = plan_at_once(ground, jobs, {});
    best = std::min(best, std::chrono::steady_clock::now() - began);
    ASSERT_TRUE(plan.planned()) << plan.why_not;
    ASSERT_EQ(plan.plan.boxes.size(), 64U);
  }
  RecordProperty("at_once_us", static_cast<int>(best.count() / 1'000));
  std::printf("64 racks, 64 boxes, 8 jobs: %.2f ms\n", static_cast<double>(best.count()) / 1e6);
}

}  // namespace
}  // namespace tally::planning
