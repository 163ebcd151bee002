// Jobs beside one another, boxes that are asked for slots, a box that is lost, and what explains a plan.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "plan_report/report_text.h"
#include "planner/closed_form.h"
#include "planner/explanation.h"
#include "planner/jobs.h"
#include "planner/linear_program.h"
#include "planner_support.h"

namespace tally::planner_test {
namespace {

using planner::Effort;
using planner::Job;
using planner::Rates;
using planner::Resource;

planner::Topology four_racks(double box) {
  return planner::leaf_spine({.racks = 4,
                              .spines = 2,
                              .hosts_per_rack = 8,
                              .nic = 25,
                              .uplink = 100,
                              .rack_box = box,
                              .spine_box = box});
}

// All jobs' loads together, counted by worker and group.
Rates sum_of_loads(const planner::Topology& topology, const std::vector<Job>& jobs,
                   const std::vector<Result<planner::Plan>>& plans) {
  Rates all(topology.resources());
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    if (!plans[j]) continue;
    const Rates unit = counted_loads({topology, jobs[j]}, *plans[j], planner::Routing::kEcmp);
    for (std::size_t r = 0; r < all.size(); ++r) all[r] += unit[r] * plans[j]->rate;
  }
  return all;
}

void expect_fits(const planner::Topology& topology, const Rates& loads) {
  const Rates capacity = topology.rates();
  for (Resource r = 0; r < loads.size(); ++r)
    EXPECT_LE(loads[r], capacity[r] * (1 + 1e-9)) << topology.name_of(r);
}

TEST(PlannerJobs, TwoJobsOfOneSizeGetTheSame) {
  planner::Topology topology = four_racks(100);
  std::vector<Job> jobs(2);
  for (Index h = 0; h < 32; ++h) jobs[h % 2].workers.push_back(h);
  for (Index s = 0; s < 2; ++s) jobs[s].servers = {topology.add_server("ps", 8 * s, 25)};
  planner::Ways ways(topology);
  const auto plans = planner::make_plans({topology, ways}, jobs, topology.rates());
  ASSERT_TRUE(plans[0] && plans[1]);
  EXPECT_NEAR(plans[0]->rate, plans[1]->rate, 0.1 * plans[0]->rate);
  expect_fits(topology, sum_of_loads(topology, jobs, plans));
}

TEST(PlannerJobs, WhatOneDoesNotWantTheOtherHas) {
  planner::Topology topology = four_racks(100);
  std::vector<Job> jobs(2);
  for (Index h = 0; h < 32; ++h) jobs[h % 2].workers.push_back(h);
  planner::Ways ways(topology);
  const planner::Network network{topology, ways};
  const auto equal = planner::make_plans(network, jobs, topology.rates());
  ASSERT_TRUE(equal[0] && equal[1]);
  jobs[0].demand = 1;
  const auto plans = planner::make_plans(network, jobs, topology.rates());
  ASSERT_TRUE(plans[0] && plans[1]);
  EXPECT_DOUBLE_EQ(plans[0]->rate, 1);
  EXPECT_EQ(plans[0]->binding, planner::kNone);
  EXPECT_GT(plans[1]->rate, 1.3 * equal[1]->rate);
  expect_fits(topology, sum_of_loads(topology, jobs, plans));
}

TEST(PlannerJobs, AJobThatCannotBePlannedTakesNothingFromOthers) {
  planner::Topology topology = four_racks(100);
  std::vector<Job> jobs(3);
  jobs[0].workers = {0, 8, 16, 24};
  jobs[1].name = "empty";
  jobs[2].name = "wrong";
  jobs[2].workers.assign(10, 999);
  planner::Ways ways(topology);
  const auto plans = planner::make_plans({topology, ways}, jobs, topology.rates());
  ASSERT_TRUE(plans[0]);
  EXPECT_EQ(plans[1].error().text(), "empty: a job without workers");
  EXPECT_EQ(plans[2].error().text(), "wrong: there is no such host or server");
  EXPECT_DOUBLE_EQ(plans[0]->rate, 25);
}

// 64 jobs of 8 workers in two racks each, on 64 racks under 8 spines.
std::vector<Job> many_jobs(planner::Topology& topology) {
  std::vector<Job> jobs;
  for (Index j = 0; j < 64; ++j) {
    Job job{.name = "job" + std::to_string(j)};
    for (Index w = 0; w < 8; ++w) job.workers.push_back((j + 7 * (w / 4)) % 64 * 8 + (w % 4) * 2 + (w / 4));
    job.servers = {topology.add_server("ps" + std::to_string(j), (j + 20) % 64 * 8, 25)};
    jobs.push_back(job);
  }
  return jobs;
}

TEST(PlannerJobs, SixtyFourJobsAreReplannedWithoutALostBox) {
  Instance instance = large_instance(50, false);
  planner::Topology& topology = instance.topology;
  const std::vector<Job> jobs = many_jobs(topology);
  planner::Ways ways(topology);
  const planner::Network network{topology, ways};
  const auto before = planner::make_plans(network, jobs, topology.rates(), {.effort = Effort::kAtOnce});
  // The box that most jobs use.
  std::map<Index, std::size_t> users;
  for (const auto& plan : before) {
    ASSERT_TRUE(plan);
    for (const Index box : plan->tables.boxes) ++users[box];
  }
  const Index lost = std::max_element(users.begin(), users.end(), [](const auto& a, const auto& b) {
                       return a.second < b.second;
                     })->first;
  EXPECT_GE(users[lost], 1U);
  planner::Topology without = topology;
  without.set_rate(without.box(lost), 0);
  planner::Ways ways_without(without);
  const planner::Network left{without, ways_without};
  for (const Effort effort : {Effort::kAtOnce, Effort::kProduct}) {
    const auto after = planner::make_plans(left, jobs, without.rates(), {.effort = effort});
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      ASSERT_TRUE(after[j]) << after[j].error().text();
      EXPECT_GT(after[j]->rate, 0);
      EXPECT_EQ(std::count(after[j]->tables.boxes.begin(), after[j]->tables.boxes.end(), lost), 0);
    }
    expect_fits(without, sum_of_loads(without, jobs, after));
    if (effort != Effort::kAtOnce) continue;
    const auto again = planner::make_plans(left, jobs, without.rates(), {.effort = effort});
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      EXPECT_EQ(after[j]->tables, again[j]->tables);
      EXPECT_EQ(after[j]->loads, again[j]->loads);
    }
  }
}

class PlannerAdmission : public testing::Test {
 protected:
  PlannerAdmission() : topology_(four_racks(100)) {
    job_ = {.name = "asks"};
    for (Index h = 0; h < 32; ++h) job_.workers.push_back(h);
    for (Index s = 0; s < 4; ++s) job_.servers.push_back(topology_.add_server("ps", 8 * s, 25));
  }
  Result<planner::Plan> plan_with(std::function<std::uint64_t(Index, std::uint64_t)> ask) {
    planner::Ways ways(topology_);
    asked_.clear();
    planner::Admission admission;
    admission.slot_bytes = 1024;
    admission.seconds = 100e-6;
    admission.ask = [&](Index box, std::uint64_t wanted) {
      asked_.emplace_back(box, wanted);
      return given_[box] = ask(box, wanted);
    };
    auto plan = planner::make_admitted_plan({topology_, ways}, job_, topology_.rates(), admission);
    if (plan) expect_carried(*plan);
    return plan;
  }
  // No box has more of the job than the slots that it gave last can carry.
  void expect_carried(const planner::Plan& plan) {
    for (const Index box : plan.tables.boxes) {
      double here = 0;
      for (std::size_t r = 0; r < plan.tables.racks.size(); ++r) {
        const auto& table = plan.tables.of_rack[r];
        const bool uses = std::any_of(table.begin(), table.end(), [&](const planner::Entry& entry) {
          return entry.box != planner::Entry::kNoBox && plan.tables.boxes[entry.box] == box;
        });
        here += uses ? 8 : 0;
      }
      EXPECT_LE(plan.loads[topology_.box(box)],
                planner::memory_rate(here, given_[box], 1024, 100e-6) * (1 + 1e-9));
    }
  }

  planner::Topology topology_;
  Job job_;
  std::vector<std::pair<Index, std::uint64_t>> asked_;
  std::map<Index, std::uint64_t> given_;
};

TEST_F(PlannerAdmission, BoxesThatGiveEverythingAreAskedOnce) {
  const auto plan = plan_with([](Index, std::uint64_t wanted) { return wanted; });
  ASSERT_TRUE(plan);
  planner::Ways ways(topology_);
  const auto without_asking = planner::make_plan({topology_, ways}, job_, topology_.rates());
  EXPECT_EQ(plan->tables, without_asking->tables);
  EXPECT_EQ(asked_.size(), plan->tables.boxes.size());
}

TEST_F(PlannerAdmission, ABoxThatGivesLessGetsLess) {
  const auto all = plan_with([](Index, std::uint64_t wanted) { return wanted; });
  const auto plan = plan_with([](Index box, std::uint64_t wanted) {
    return box == 1 ? std::min(wanted, std::uint64_t{10}) : wanted;
  });
  ASSERT_TRUE(all && plan);
  EXPECT_LT(plan->loads[topology_.box(1)], 0.5 * all->loads[topology_.box(1)]);
  EXPECT_GT(plan->rate, 0.7 * all->rate);  // the others take it
}

TEST_F(PlannerAdmission, BoxesThatGiveLessEachTimeAreAskedThreeTimesAndThenHeldToTheirWord) {
  std::uint64_t most = 400;
  const auto plan = plan_with([&](Index, std::uint64_t wanted) { return std::min(wanted, most -= 5); });
  ASSERT_TRUE(plan);
  EXPECT_GT(plan->rate, 0);
  std::map<Index, int> times;
  for (const auto& [box, wanted] : asked_) ++times[box];
  for (const auto& [box, count] : times) EXPECT_LE(count, planner::kSolvedAgain);
}

TEST_F(PlannerAdmission, WithoutSlotsAnywhereEverybodySendsToTheServers) {
  const auto plan = plan_with([](Index, std::uint64_t) { return 0; });
  ASSERT_TRUE(plan) << plan.error().text();
  EXPECT_TRUE(plan->tables.boxes.empty());
  EXPECT_NEAR(plan->rate, 100.0 / 32, 1e-9);
  job_.servers.clear();
  const auto none = plan_with([](Index, std::uint64_t) { return 0; });
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().where, "asks");
}

TEST(PlannerExplanation, NamesWhatBindsAndHowFullEverythingIs) {
  planner::Topology topology = four_racks(100);
  Job job{.name = "told"};
  for (Index h = 0; h < 32; ++h) job.workers.push_back(h);
  for (Index s = 0; s < 4; ++s)
    job.servers.push_back(topology.add_server("ps" + std::to_string(s + 1), 8 * s, 10));
  planner::Ways ways(topology);
  const planner::Network network{topology, ways};
  const Rates capacity = topology.rates();
  const auto plan = planner::make_plan(network, job, capacity);
  ASSERT_TRUE(plan);
  const auto others = planner::baselines_of(network, job, capacity, *plan);
  ASSERT_TRUE(others);
  const plan_report::JobReport told = planner::explain(topology, job, *plan, capacity, plan->loads, *others);
  const auto share = [](const plan_report::Load& one) { return one.load / one.room; };
  EXPECT_EQ(told.name, "told");
  EXPECT_EQ(told.racks, 4U);
  EXPECT_EQ(told.full, topology.name_of(plan->binding));
  EXPECT_EQ(told.loads.front().name, told.full);
  EXPECT_NEAR(share(told.loads.front()), 1, 1e-9);
  EXPECT_TRUE(std::ranges::is_sorted(
      told.loads, [&](const auto& a, const auto& b) { return share(a) > share(b) + 0.001; }));
  EXPECT_NEAR(others->no_aggregation.value(), 40.0 / 32, 1e-9);
  EXPECT_LE(others->no_aggregation.value(), others->own_rack.value());
  EXPECT_LE(others->own_rack_greedy.value(), others->own_rack.value() * (1 + 1e-9));
  EXPECT_LE(others->own_rack.value(), others->own_or_server_rack.value() * (1 + 1e-9));
  EXPECT_LE(others->own_or_server_rack.value(), others->bound * (1 + 1e-9));
  EXPECT_LE(plan->rate, others->bound * (1 + 1e-9));
}

// Two levels with a root of 100: what boxes that finish sums reach here is 12.5, and a ring has 12.9.
// Four servers merge a quarter each, and what boxes have is what the servers do not get from workers themselves.
TEST(PlannerExplanation, SaysWhichPartEachBoxAndServerHas) {
  planner::Topology topology = four_racks(100);
  Job job{.name = "parts"};
  for (Index h = 0; h < 32; ++h) job.workers.push_back(h);
  for (Index s = 0; s < 4; ++s)
    job.servers.push_back(topology.add_server("ps" + std::to_string(s + 1), 8 * s, 10));
  planner::Ways ways(topology);
  const auto plan = planner::make_plan({topology, ways}, job, topology.rates());
  ASSERT_TRUE(plan);
  const auto told = planner::explain(topology, job, *plan, topology.rates(), plan->loads, std::nullopt);
  EXPECT_TRUE(told.compared.empty());
  ASSERT_EQ(told.servers.size(), 4U);
  for (const plan_report::Part& server : told.servers) {
    EXPECT_EQ(server.groups, 256U);
    EXPECT_EQ(server.share, 0.25);
  }
  ASSERT_EQ(told.boxes.size(), plan->tables.boxes.size());
  for (std::size_t b = 0; b < told.boxes.size(); ++b) {
    const Index box = plan->tables.boxes[b];
    EXPECT_EQ(told.boxes[b].name, topology.boxes()[box].name);
    EXPECT_NEAR(told.boxes[b].share * 32 * plan->rate, plan->loads[topology.box(box)], 1e-9)
        << "a box's load is its share of what all workers send";
  }
}

TEST(PlannerExplanation, SaysWhenARingWouldBeFaster) {
  planner::Topology topology = planner::leaf_spine(
      {.racks = 4, .spines = 1, .hosts_per_rack = 8, .nic = 25, .uplink = 400, .rack_box = 100});
  Job job{.name = "ring"};
  for (Index h = 0; h < 32; ++h) job.workers.push_back(h);
  planner::Ways ways(topology);
  const planner::Network network{topology, ways};
  const auto told = [&] {
    const auto plan = planner::make_plan(network, job, topology.rates());
    const auto others = planner::baselines_of(network, job, topology.rates(), *plan);
    return planner::explain(topology, job, *plan, topology.rates(), plan->loads, *others);
  };
  EXPECT_TRUE(told().ring_is_faster());
  EXPECT_EQ(plan_report::ring_text(told()),
            "A ring would be faster, and needs no box: 12.90 against 12.50 Gbit/s.\n");
  // Servers behind the boxes that are wide enough.
  for (Index s = 0; s < 4; ++s) {
    job.servers.push_back(topology.add_server("ps", 8 * s, 100));
    topology.set_rate(topology.hosts()[8 * s].down, 100);
  }
  EXPECT_FALSE(told().ring_is_faster());
}

// Who ends a box does not wait for what nobody will ask for.
TEST(PlannerStops, ProgramsOfAThreadThatIsOverFail) {
  planner::GrowingProgram program({1.0});
  (void)program.add(1, {{0, 1}});
  std::atomic<bool> over = false;
  {
    const planner::StopWhen stop(over);
    EXPECT_TRUE(program.solve());
    over = true;
    EXPECT_FALSE(program.solve());
  }
  EXPECT_TRUE(program.solve());
}

}  // namespace
}  // namespace tally::planner_test
