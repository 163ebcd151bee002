// Packets that stand for several chunks, and rows that are left out (docs/hazards.md).

#include <gtest/gtest.h>

#include <cmath>
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

// Floats whose blocks have exponents of their own, in chunks of 64 of which some are zeros at all ranks.
std::vector<std::vector<float>> blocks_of_many_sizes() {
  std::vector<std::vector<float>> x(3, std::vector<float>(120 * 64));
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t i = 0; i < x[r].size(); ++i)
      if (i / 64 % 4 != 1) x[r][i] = std::ldexp(1.0F, static_cast<int>((i / 64 * 7 + r) % 12));
  return x;
}

void expect_sums(HazardRack& rack, std::size_t sum) {
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  const auto x = blocks_of_many_sizes();
  for (std::uint16_t r = 0; r < 3; ++r)
    for (std::size_t i = 0; i < x[0].size(); ++i)
      ASSERT_EQ(rack.floats(r, sum)[i], x[0][i] + x[1][i] + x[2][i]) << r << ' ' << i;
}

TEST(HazardSparse, runs_with_exponents_are_lost_come_twice_and_late) {
  HazardRack rack(three());
  rack.join();
  const auto odd = [n = 0](const Header&) mutable { return ++n % 2 == 1; };
  rack.lose({.up = true, .type = kRun, .also = odd}, 9);
  rack.lose({.up = false, .type = kRun, .also = odd}, 9);
  const Rule& up = rack.record({.worker = 1, .up = true, .type = kRun});
  const Rule& down = rack.record({.worker = 1, .up = false, .type = kRun});
  for (int round = 0; round < 3; ++round) {
    expect_sums(rack, rack.reduce_floats(blocks_of_many_sizes()));
    rack.replay(up, 1, true);
    rack.replay(down, 1, false);
  }
  rack.expect_healthy();
}

TEST(HazardSparse, exponents_of_runs_that_are_changed_are_found) {
  for (const bool up : {true, false}) {
    HazardRack rack(three());
    rack.join();
    std::size_t at = 0;
    const Rule& changed = rack.change(
        {.up = up,
         .type = kRun,
         .also = [](const Header& h) { return h.exponent == kNoExponent && h.dtype == 1; }},
        [&at](Bytes& frame) {
          const std::size_t begin = kOuterBytes + kHeaderBytes;
          if (frame.size() > begin) frame[begin + at++ % (frame.size() - begin)] ^= std::byte{3};
        },
        6);
    expect_sums(rack, rack.reduce_floats(blocks_of_many_sizes()));
    EXPECT_EQ(changed.hits(), 6U);
    EXPECT_GT(up ? rack.drops(Drop::kSum) : rack.counted(0).of(Refused::kSum), 0U);
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
