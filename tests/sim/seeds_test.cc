// The swarms: random racks, jobs, fault rates and blows, thousands of seeds of them (a tenth under AddressSanitizer,
// where one takes ten times as long); all invariants of docs/hazards.md but 7. `make soak SEEDS=...` runs more of the
// same, and so do soak-boxes, soak-racks and soak-sparse. Of tables: table_seeds_test.cc.

#include <gtest/gtest.h>

#include <algorithm>

#include "simulation.h"

namespace tally::sim {
namespace {

struct Swarmed {
  std::uint64_t runs = 0;    // packets that stand for several chunks of zeros
  std::uint64_t sparse = 0;  // contributions without the rows that are zero
};

// `count` seeds, those of test `test`. option: of tally_sim_run, for one of them again.
Swarmed swarm(int test, std::uint64_t count, Scenario (*scenario)(std::uint64_t), const char* option) {
  Swarmed all;
  const auto first = static_cast<std::uint64_t>(test) * count;
  std::uint64_t right = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    Simulation simulation(scenario(seed));
    const Report report = simulation.run();
    right += report.right;
    for (std::size_t i = 0; i < simulation.workers(); ++i) {
      if (!simulation.worker(i).alive()) continue;
      const EngineStatistics& counted = simulation.worker(i).engine().statistics();
      all.runs += counted.runs;
      all.sparse += counted.sparse;
    }
    for (const auto& what : report.broken) {
      ADD_FAILURE() << "seed " << seed << ": " << what << "\n  again: tally_sim_run " << option << "--seed "
                    << seed << " --verbose";
    }
  }
  EXPECT_GT(right, count);  // a simulation that completes nothing shows nothing
  return all;
}

// 3,200 seeds of one box, its jobs of all disciplines.
class Swarm : public testing::TestWithParam<int> {};

TEST_P(Swarm, holds_all_invariants) { swarm(GetParam(), 100 / TALLY_SEED_SHARE, scenario_of, ""); }

INSTANTIATE_TEST_SUITE_P(Seeds, Swarm, testing::Range(0, 32));

// 3,000 of jobs over 2 to 8 boxes: plans, links, servers and every box suffer, the home included.
class SwarmOfBoxes : public testing::TestWithParam<int> {};

TEST_P(SwarmOfBoxes, holds_all_invariants) {
  swarm(GetParam(), 100 / TALLY_SEED_SHARE, boxes_scenario_of, "--boxes ");
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmOfBoxes, testing::Range(0, 30));

// 300 of jobs of 1 to 8 racks: links, workers, the box of each rack and the parent suffer.
class SwarmOfRacks : public testing::TestWithParam<int> {};

TEST_P(SwarmOfRacks, holds_all_invariants) {
  swarm(GetParam(), 50 / TALLY_SEED_SHARE, racks_scenario_of, "--racks ");
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmOfRacks, testing::Range(0, 6));

// 600 of sums of rows of tables: of each rank a few rows, all or none, in whole and collected.
class SwarmOfRows : public testing::TestWithParam<int> {};

TEST_P(SwarmOfRows, holds_all_invariants) {
  const Swarmed all = swarm(GetParam(), 100 / TALLY_SEED_SHARE, sparse_scenario_of, "--sparse ");
  EXPECT_GT(all.runs, 0U);
  EXPECT_GT(all.sparse, 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmOfRows, testing::Range(0, 6));

// Of the seeds whose jobs opted in, one of the first does get INCOMPLETE results.
TEST(SwarmCoverage, some_results_are_incomplete) {
  std::uint64_t incomplete = 0;
  for (std::uint64_t seed = 0; incomplete == 0 && seed < 1'000; ++seed) {
    const Scenario scenario = scenario_of(seed);
    const bool late =
        std::any_of(scenario.box.jobs.begin(), scenario.box.jobs.end(),
                    [](const members::NativeConfig& job) { return job.stragglers.has_value(); });
    if (late) incomplete += Simulation(scenario).run().incomplete;
  }
  EXPECT_GT(incomplete, 0U);
}

// Whoever forges is met: at control by tag and by counter.
TEST(SwarmCoverage, forged_and_replayed_packets_reach_control) {
  Report all;
  for (std::uint64_t seed = 0; (all.no_tag < 10 || all.again < 10) && seed < 1'000; ++seed) {
    const Report report = Simulation(scenario_of(seed)).run();
    all.forged += report.forged;
    all.no_tag += report.no_tag;
    all.again += report.again;
  }
  EXPECT_GE(all.no_tag, 10U) << all.forged << " forged";
  EXPECT_GE(all.again, 10U) << all.forged << " forged";
}

}  // namespace
}  // namespace tally::sim
