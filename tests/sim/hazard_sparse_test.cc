// Packets that stand for several chunks, and rows that are left out (docs/hazards.md).

#include <gtest/gtest.h>

#include <vector>

#include "hazard_rack.h"

namespace tally::sim {
namespace {

constexpr auto kRun = PacketType::kZeroRun;

// Of 3 ranks and 120 chunks of 16: in every fifth one rank has one row, in every thirtieth all have.
std::vector<std::vector<std::int32_t>> mostly_zeros() {
  std::vector<std::vector<std::int32_t>> x(3, std::vector<std::int32_t>(120 * 64));
  for (std::size_t chunk = 0; chunk < 120; chunk += 5)
    for (std::size_t r = 0; r < 3; ++r)
      if (chunk % 30 == 0 || chunk / 5 % 3 == r)
        for (std::size_t i = 0; i < 16; ++i)
          x[r][64 * chunk + 16 * (chunk % 4) + i] = static_cast<std::int32_t>(chunk + r + i);
  return x;
}

RackOptions three() { return {.world = 3, .window = 64, .elements = 64}; }

TEST(HazardSparse, runs_that_are_lost_are_repaired_chunk_by_chunk) {
  for (const bool up : {true, false}) {
    HazardRack rack(three());
    rack.join();
    const Rule& lost = rack.lose({.up = up, .type = kRun});
    const std::size_t sum = rack.reduce_ints(mostly_zeros());
    rack.expect_exact(sum);
    EXPECT_GT(lost.hits(), 0U);
    EXPECT_EQ(rack.counted(0).refused_total(), rack.counted(0).of(Refused::kLate))
        << "but results that came twice";
    rack.expect_healthy();
  }
}

TEST(HazardSparse, runs_that_come_twice_and_late_count_once) {
  HazardRack rack(three());
  rack.join();
  const Rule& up = rack.record({.worker = 1, .up = true, .type = kRun});
  const Rule& down = rack.record({.worker = 1, .up = false, .type = kRun});
  rack.expect_exact(rack.reduce_ints(mostly_zeros()));
  for (int round = 0; round < 3; ++round) {
    rack.replay(up, 1, true);
    rack.replay(down, 1, false);
    rack.expect_exact(rack.reduce_ints(mostly_zeros()));
  }
  rack.expect_healthy();
}

TEST(HazardSparse, a_restart_between_runs_and_their_results) {
  for (const bool all : {false, true}) {
    HazardRack rack(three());
    rack.join();
    rack.lose({.up = false, .type = kRun}, 4);
    const std::size_t sum = rack.reduce_ints(mostly_zeros());
    rack.run_for(100 * kMicrosecond);
    all ? rack.box().restart() : rack.box().restart_data_plane();
    rack.expect_exact(sum);
    rack.expect_healthy();
  }
}

TEST(HazardSparse, leaves_zeros_out_at_all) {
  HazardRack rack(three());
  rack.join();
  const std::size_t sum = rack.reduce_ints(mostly_zeros());
  rack.expect_exact(sum);
  EXPECT_GT(rack.counted(0).runs, 0U);
  EXPECT_GT(rack.counted(0).sparse, 0U);
  EXPECT_LT(rack.stats(0, sum).packets, 60U) << "of 120 chunks";
}

}  // namespace
}  // namespace tally::sim
