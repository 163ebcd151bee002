// 300 seeds of jobs of 1 to 8 racks (30 under AddressSanitizer): links, workers, the box of each rack and the parent
// suffer; all invariants of docs/hazards.md but 7. `make soak-racks SEEDS=...` runs more of the same.

#include <gtest/gtest.h>

#include "simulation.h"

namespace tally::sim {
namespace {

constexpr int kRacksTests = 6;
constexpr std::uint64_t kRacksSeedsPerTest = 50 / TALLY_SEED_SHARE;

class SwarmOfRacks : public testing::TestWithParam<int> {};

TEST_P(SwarmOfRacks, holds_all_invariants) {
  const auto first = static_cast<std::uint64_t>(GetParam()) * kRacksSeedsPerTest;
  std::uint64_t right = 0;
  for (std::uint64_t seed = first; seed < first + kRacksSeedsPerTest; ++seed) {
    const Report report = Simulation(racks_scenario_of(seed)).run();
    right += report.right;
    for (const auto& what : report.broken) {
      ADD_FAILURE() << "seed " << seed << ": " << what << "\n  again: tally_sim_run --racks --seed " << seed
                    << " --verbose";
    }
  }
  EXPECT_GT(right, kRacksSeedsPerTest);  // a simulation that completes nothing shows nothing
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmOfRacks, testing::Range(0, kRacksTests));

}  // namespace
}  // namespace tally::sim
