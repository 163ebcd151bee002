// Whole chunk groups: how they are counted, spread and mended, and what a table may say.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <set>

#include "planner/closed_form.h"
#include "planner/repair.h"
#include "planner/rounding.h"
#include "planner_support.h"

namespace tally::planner_test {
namespace {

using planner::Entry;
using planner::interleaved;
using planner::kGroups;
using planner::largest_remainder;
using planner::Routing;
using Counts = std::vector<std::size_t>;

TEST(PlannerTable, LargestRemainderGivesWhatIsLeftToThoseThatLostMost) {
  EXPECT_EQ(largest_remainder(std::array{1.0, 1.0, 1.0}, 10), (Counts{4, 3, 3}));
  EXPECT_EQ(largest_remainder(std::array{0.5, 0.25, 0.25}, 8), (Counts{4, 2, 2}));
  EXPECT_EQ(largest_remainder(std::array{2.6, 1.3, 6.1}, 10), (Counts{3, 1, 6}));
  EXPECT_EQ(largest_remainder(std::array{0.0, 3.0}, 7), (Counts{0, 7}));
  EXPECT_EQ(largest_remainder(std::array{0.1, 0.2, 0.7}, 10), (Counts{1, 2, 7}));  // in floats 0.7 is less
}

TEST(PlannerTable, InterleavingSpreadsEachEvenly) {
  EXPECT_EQ(interleaved(Counts{2, 1}), (Counts{0, 1, 0}));
  EXPECT_EQ(interleaved(Counts{4, 0, 2}), (Counts{0, 2, 0, 0, 2, 0}));
  // In every window each has its part, but for two.
  const Counts counts{700, 200, 100, 24};
  const Counts sequence = interleaved(counts);
  ASSERT_EQ(sequence.size(), kGroups);
  for (std::size_t what = 0; what < counts.size(); ++what) {
    double seen = 0;
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      seen += sequence[i] == what ? 1 : 0;
      EXPECT_NEAR(seen, static_cast<double>(counts[what] * (i + 1)) / kGroups, 2);
    }
    EXPECT_EQ(seen, static_cast<double>(counts[what]));
  }
}

// What the data plane relies on, of any plan.
void expect_well_formed(const Instance& instance, const planner::Plan& plan) {
  const planner::Tables& tables = plan.tables;
  ASSERT_EQ(tables.of_rack.size(), tables.racks.size());
  std::set<Index> racks;
  for (const Index host : instance.job.workers) racks.insert(instance.topology.hosts()[host].rack);
  EXPECT_TRUE(std::equal(racks.begin(), racks.end(), tables.racks.begin(), tables.racks.end()));
  EXPECT_LE(tables.boxes.size(), planner::kBoxesOfJob);
  EXPECT_EQ(std::set<Index>(tables.boxes.begin(), tables.boxes.end()).size(), tables.boxes.size());
  std::set<std::uint8_t> named;
  for (const auto& table : tables.of_rack) {
    std::set<std::uint8_t> boxes;
    for (std::size_t g = 0; g < kGroups; ++g) {
      EXPECT_EQ(table[g].server, tables.of_rack.front()[g].server);  // partial sums meet there
      if (instance.job.servers.empty()) {
        EXPECT_EQ(table[g], tables.of_rack.front()[g]);
        EXPECT_NE(table[g].box, Entry::kNoBox);
        EXPECT_EQ(table[g].server, 0);
      } else {
        EXPECT_LT(table[g].server, instance.job.servers.size());
      }
      if (table[g].box != Entry::kNoBox) boxes.insert(table[g].box);
    }
    EXPECT_LE(boxes.size(), planner::kBoxesOfWorker);
    named.insert(boxes.begin(), boxes.end());
  }
  for (const std::uint8_t box : named) ASSERT_LT(box, tables.boxes.size());
}

TEST(PlannerTable, EveryTableIsOneThatTheDataPlaneCanFollow) {
  for (std::uint64_t seed = 2001; seed <= 2100; ++seed) {
    SCOPED_TRACE(seed);
    Instance instance = random_instance(seed, seed % 3 == 0);
    if (seed % 4 == 0) instance.job.servers.clear(), instance.job.shares.clear();
    planner::Ways ways(instance.topology);
    for (const auto effort : {planner::Effort::kAtOnce, planner::Effort::kProduct, planner::Effort::kFull}) {
      for (const auto results : {planner::Results::kIgnored, planner::Results::kCounted}) {
        const auto routing = seed % 2 == 0 ? Routing::kEcmp : Routing::kChosen;
        const planner::Network network{instance.topology, ways, routing, results};
        const planner::Rates capacity = instance.topology.rates();
        const auto plan = planner::make_plan(network, instance.job, capacity, {.effort = effort});
        if (!plan) continue;
        expect_well_formed(instance, *plan);
        const planner::Rates unit = counted_loads(instance, *plan, routing, results);
        EXPECT_NEAR(rate_by(capacity, unit), plan->rate, 1e-9 * plan->rate);
        if (HasFailure()) return;
      }
    }
  }
}

TEST(PlannerTable, ServersHaveTheirSharesAmongTheGroupsOfEachBox) {
  const Instance instance = fat_tree_instance(40, 1, false);
  planner::Ways ways(instance.topology);
  const planner::Network network{instance.topology, ways, Routing::kChosen};
  const auto party = planner::party_of(instance.topology, instance.job, instance.topology.rates());
  const planner::Split split = planner::closed_form_split(network, *party, instance.topology.rates(), false);
  const planner::Tables tables = planner::round_to_groups(split, *party);
  std::vector<std::array<int, 4>> of_box(tables.boxes.size());
  std::array<int, 4> all{};
  for (const Entry& entry : tables.of_rack.front()) {
    ++all[entry.server];
    if (entry.box != Entry::kNoBox) ++of_box[entry.box][entry.server];
  }
  EXPECT_EQ(all, (std::array{256, 256, 256, 256}));
  ASSERT_EQ(of_box.size(), 45U);
  for (const auto& servers : of_box)
    EXPECT_LE(
        *std::max_element(servers.begin(), servers.end()) - *std::min_element(servers.begin(), servers.end()),
        2);
}

TEST(PlannerTable, RepairMovesGroupsOffTheHottestResource) {
  const Instance instance = fat_tree_instance(30, 2, false);
  const planner::Topology& topology = instance.topology;
  const planner::Rates capacity = topology.rates();
  planner::Ways ways(topology);
  const planner::Network network{topology, ways, Routing::kChosen};
  const auto party = planner::party_of(topology, instance.job, capacity);
  const planner::Split split = planner::closed_form_split(network, *party, capacity, false);
  planner::Tables tables = planner::round_to_groups(split, *party);
  planner::LoadModel model(network, *party, split.spread);
  const auto rate = [&] {
    return planner::rate_of(topology, *party, capacity, planner::unit_loads(model, topology, *party, tables))
        .rate;
  };
  const double rounded = rate();
  // A box gets 60 groups of others.
  std::size_t spoilt = 0;
  for (std::size_t g = 0; g < kGroups && spoilt < 60; ++g) {
    if (tables.of_rack.front()[g].box == Entry::kNoBox || tables.of_rack.front()[g].box == 7) continue;
    for (auto& table : tables.of_rack) table[g].box = 7;
    ++spoilt;
  }
  ASSERT_LT(rate(), 0.5 * rounded);
  EXPECT_GE(planner::repair(model, topology, *party, capacity, rounded, tables), 55U);
  EXPECT_GE(rate(), 0.98 * rounded);
}

TEST(PlannerTable, RepairLeavesServersTheirGroups) {
  for (std::uint64_t seed = 2201; seed <= 2240; ++seed) {
    const Instance instance = random_instance(seed, false);
    planner::Ways ways(instance.topology);
    const planner::Rates capacity = instance.topology.rates();
    const planner::Network network{instance.topology, ways};
    const auto party = planner::party_of(instance.topology, instance.job, capacity);
    const auto plan = planner::make_plan(network, instance.job, capacity);
    if (!plan) continue;
    Counts groups(instance.job.servers.size());
    for (const Entry& entry : plan->tables.of_rack.front()) ++groups[entry.server];
    for (std::size_t s = 0; s < groups.size(); ++s)
      EXPECT_EQ(static_cast<double>(groups[s]) / kGroups, party->servers[s].share) << seed;
  }
}

TEST(PlannerTable, AWorkerSpeaksToNoMoreThan64BoxesOfALargeNetwork) {
  for (const bool unlike : {false, true}) {
    const Instance instance = large_instance(50, unlike);
    planner::Ways ways(instance.topology);
    const planner::Network network{instance.topology, ways};
    for (const auto effort : {planner::Effort::kAtOnce, planner::Effort::kProduct}) {
      const auto plan =
          planner::make_plan(network, instance.job, instance.topology.rates(), {.effort = effort});
      ASSERT_TRUE(plan);
      expect_well_formed(instance, *plan);
    }
  }
}

TEST(PlannerTable, ChosenWaysOfALargeNetworkWithNarrowLinks) {
  const Instance instance = large_instance(10, true);
  const planner::Rates capacity = instance.topology.rates();
  planner::Ways ways(instance.topology);
  const planner::Network network{instance.topology, ways, Routing::kChosen};
  const auto plan = planner::make_plan(network, instance.job, capacity);
  ASSERT_TRUE(plan);
  expect_well_formed(instance, *plan);
  // By the program with a column for each way, which takes half a minute: 13.375 with all 72 boxes.
  EXPECT_GE(plan->promised, 0.95 * 13.375);
  EXPECT_LE(plan->rate, 13.3755);
  EXPECT_GE(plan->rate, 0.9 * 13.375);
  // Equal division is worse.
  const planner::Network ecmp{instance.topology, ways, Routing::kEcmp};
  const auto by_ecmp = planner::make_plan(ecmp, instance.job, capacity);
  ASSERT_TRUE(by_ecmp);
  EXPECT_GT(plan->rate, by_ecmp->rate);
}

TEST(PlannerTable, TheSameInputGivesTheSameBytes) {
  for (const Routing routing : {Routing::kEcmp, Routing::kChosen}) {
    for (const bool unlike : {false, true}) {
      const Instance instance = fat_tree_instance(30, 4, unlike);
      const auto make = [&] {
        planner::Ways ways(instance.topology);
        const planner::Network network{instance.topology, ways, routing};
        return planner::make_plan(network, instance.job, instance.topology.rates(),
                                  {.effort = planner::Effort::kProduct});
      };
      const auto once = make();
      const auto again = make();
      ASSERT_TRUE(once && again);
      EXPECT_EQ(once->tables, again->tables);
      EXPECT_EQ(once->loads, again->loads);
      EXPECT_EQ(once->rate, again->rate);
      EXPECT_EQ(once->promised, again->promised);
    }
  }
}

TEST(PlannerTable, WhatDoesNotExistOrDoesNotFitIsRefused) {
  Instance instance = random_instance(2300, true);
  planner::Ways ways(instance.topology);
  const planner::Network network{instance.topology, ways};
  const planner::Job good = instance.job;
  const auto error = [&] {
    const auto plan = planner::make_plan(network, instance.job, instance.topology.rates());
    return plan ? std::string() : plan.error().text();
  };
  ASSERT_EQ(error(), "");
  instance.job.workers.clear();
  EXPECT_EQ(error(), "random: a job without workers");
  instance.job = good;
  instance.job.workers.push_back(99);
  EXPECT_EQ(error(), "random: there is no such host or server");
  instance.job = good;
  instance.job.shares = {0.25, 0.25, 0.25, 0.25};
  EXPECT_EQ(error(), "random: there are 4 shares for " + std::to_string(good.servers.size()) + " servers");
  instance.job.shares.assign(good.servers.size(), 1.5);
  EXPECT_EQ(error(), "random: the shares of the servers do not add up to 1");
  instance.job = good;
  for (const planner::Host& host : instance.topology.hosts()) instance.topology.set_rate(host.up, 0);
  EXPECT_EQ(error(),
            "random: nothing is left for this job: a link, a box or a server that it needs is down or full");
}

}  // namespace
}  // namespace tally::planner_test
