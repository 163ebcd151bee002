// The swarm of tables: 3,000 seeds (a tenth under AddressSanitizer) of workers whose rows become hot and cold while packets,
// links, the box, workers and servers of keys suffer. `make soak-tables SEEDS=...` runs more of the same.

#include <gtest/gtest.h>

#include <cstdint>

#include "table_life.h"

namespace tally::sim {
namespace {

class SwarmOfTables : public testing::TestWithParam<int> {};

TEST_P(SwarmOfTables, loses_nothing_that_is_committed) {
  constexpr std::uint64_t kSeeds = 100 / TALLY_SEED_SHARE;
  std::uint64_t rounds = 0, sets = 0, moves = 0, over = 0, closed = 0;
  const std::uint64_t first = static_cast<std::uint64_t>(GetParam()) * kSeeds;
  for (std::uint64_t seed = first; seed < first + kSeeds; ++seed) {
    const TableReport report = TableLife(seed).run();
    rounds += report.rounds;
    sets += report.sets;
    moves += report.moves;
    ++(report.over ? over : closed);
    for (const auto& what : report.broken)
      ADD_FAILURE() << "seed " << seed << ": " << what << "\n  again: tally_sim_run --tables --seed " << seed
                    << " --verbose";
  }
  // A run in which nothing is hot and nothing lost shows nothing.
  EXPECT_GT(rounds, 5 * kSeeds);
  EXPECT_GT(sets, kSeeds);
  EXPECT_GT(moves, kSeeds);
  EXPECT_GT(over, 0U);
  EXPECT_GT(closed, TALLY_SEED_SHARE == 1 ? kSeeds / 3 : 0U);  // a share is too few for it
}

INSTANTIATE_TEST_SUITE_P(Seeds, SwarmOfTables, testing::Range(0, 30));

}  // namespace
}  // namespace tally::sim
