// 600 seeds of sums of rows of tables (60 under AddressSanitizer): of each rank a few rows, all or none, in whole and
// collected; all invariants of docs/hazards.md but 7. `make soak-sparse SEEDS=...` runs more of the same.

#include <gtest/gtest.h>

#include "simulation.h"

namespace tally::sim {
namespace {

constexpr int kSparseTests = 6;
constexpr std::uint64_t kSparseSeedsPerTest = 100 / TALLY_SEED_SHARE;

class SwarmOfRows : public testing::TestWithParam<int> {};

TEST_P(SwarmOfRows, holds_all_invariants) {
  const auto first = static_cast<std::uint64_t>(GetParam()) * kSparseSeedsPerTest;
  std::uint64_t right = 0;
  std::uint64_t runs = 0;
  std::uint64_t sparse = 0;
  for (std::uint64_t seed = first; seed < first + kSparseSeedsPerTest; ++seed) {
    Simulation simulation(sparse_scenario_of(seed));
    const Report report = simulation.run();
    right += report.right;
    for (std::size_t i = 0; i < simulation.workers(); ++i) {
      if (!simulation.worker(i).alive()) continue;
      runs += simulation.worker(i).engine().statistics().runs;
      sparse += simulation.worker(i).engine().statistics().sparse;
    }
    for (const auto& what : report.broken) {
      ADD_FAILURE() << "seed " << seed << ": " << what << "\n  again: tally_sim_run --sparse --seed " << seed
                    << " --verbose";
    }
  }
  EXPECT_GT(right, kSparseSeedsPerTest);  // a simulation that completes nothing shows nothing
  EXPECT_GT(runs, 0U);
  EXPECT_GT(sparse, 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmOfRows, testing::Range(0, kSparseTests));

}  // namespace
}  // namespace tally::sim
