// 3,200 seeds of the swarm (320 under AddressSanitizer, where one takes ten times as long): random racks,
// jobs, fault rates and blows, of all disciplines; all invariants of docs/hazards.md but 7. `make soak
// SEEDS=...` runs more of the same.

#include <gtest/gtest.h>

#include <algorithm>

#include "simulation.h"

namespace tally::sim {
namespace {

constexpr int kTests = 32;
constexpr std::uint64_t kSeedsPerTest = 100 / TALLY_SEED_SHARE;

class Swarm : public testing::TestWithParam<int> {};

TEST_P(Swarm, holds_all_invariants) {
  const auto first = static_cast<std::uint64_t>(GetParam()) * kSeedsPerTest;
  std::uint64_t right = 0;
  for (std::uint64_t seed = first; seed < first + kSeedsPerTest; ++seed) {
    const Report report = Simulation(scenario_of(seed)).run();
    right += report.right;
    for (const auto& what : report.broken) {
      ADD_FAILURE() << "seed " << seed << ": " << what << "\n  again: tally_sim_run --seed " << seed
                    << " --verbose";
    }
  }
  EXPECT_GT(right, kSeedsPerTest);  // a simulation that completes nothing shows nothing
}

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

INSTANTIATE_TEST_SUITE_P(Seeds, Swarm, testing::Range(0, kTests));

}  // namespace
}  // namespace tally::sim
