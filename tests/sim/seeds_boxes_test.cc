// 3,000 seeds of jobs over 2 to 8 boxes (300 under AddressSanitizer): plans, links, servers and every box suffer, the
// home included; all invariants of docs/hazards.md but 7. `make soak-boxes SEEDS=...` runs more of the same.

#include <gtest/gtest.h>

#include "simulation.h"

namespace tally::sim {
namespace {

constexpr int kBoxesTests = 30;
constexpr std::uint64_t kBoxesSeedsPerTest = 100 / TALLY_SEED_SHARE;

class SwarmOfBoxes : public testing::TestWithParam<int> {};

TEST_P(SwarmOfBoxes, holds_all_invariants) {
  const auto first = static_cast<std::uint64_t>(GetParam()) * kBoxesSeedsPerTest;
  std::uint64_t right = 0;
  for (std::uint64_t seed = first; seed < first + kBoxesSeedsPerTest; ++seed) {
    const Report report = Simulation(boxes_scenario_of(seed)).run();
    right += report.right;
    for (const auto& what : report.broken) {
      ADD_FAILURE() << "seed " << seed << ": " << what << "\n  again: tally_sim_run --boxes --seed " << seed
                    << " --verbose";
    }
  }
  EXPECT_GT(right, kBoxesSeedsPerTest);  // a simulation that completes nothing shows nothing
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmOfBoxes, testing::Range(0, kBoxesTests));

}  // namespace
}  // namespace tally::sim
