// Values that are left out, values of 16 bits, and values that are no numbers (docs/hazards.md).

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "frames.h"
#include "hazard_rack.h"

namespace tally::sim {
namespace {

using Floats = std::vector<std::vector<float>>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

engine::OperationOptions propagate(WireType wire = WireType::kInt32) {
  engine::OperationOptions options;
  options.non_finite = NonFinite::kPropagate;
  options.wire = wire;
  return options;
}

void expect_same_bits(HazardRack& rack, std::size_t sum) {
  const auto bits = [&](std::uint16_t r) {
    std::vector<std::uint32_t> words;
    for (const float x : rack.floats(r, sum)) words.push_back(std::bit_cast<std::uint32_t>(x));
    return words;
  };
  for (const std::uint16_t r : rack.ranks()) EXPECT_EQ(bits(r), bits(0)) << r;
}

struct Losses {
  const char* name;
  bool lossy;
};
class HazardBits : public testing::TestWithParam<Losses> {
 protected:
  static void lose(HazardRack& rack) {
    if (!GetParam().lossy) return;
    rack.lose({.up = true, .type = PacketType::kContribute}, 7);
    rack.lose({.up = false, .type = PacketType::kResult}, 7);
  }
};
INSTANTIATE_TEST_SUITE_P(Losses, HazardBits, testing::Values(Losses{"quiet", false}, Losses{"lossy", true}),
                         [](const auto& p) { return p.param.name; });

// Blocks of 16: what one rank has that is no number is NaN for its block at every rank, and nothing else.
TEST_P(HazardBits, no_number_propagates_for_its_packet_alone) {
  for (const WireType wire : {WireType::kInt32, WireType::kInt16}) {
    const std::size_t block = wire == WireType::kInt16 ? 32 : 16;
    for (const float broken : {kNan, kInfinity, -kInfinity, std::nextafter(0x1p126F, kInfinity)}) {
      HazardRack rack({.world = 3});
      rack.join();
      lose(rack);
      Floats x(3, std::vector<float>(20 * block, 0.5F));
      x[1][7 * block + 3] = broken;
      const std::size_t sum = rack.reduce_floats(x, propagate(wire));
      ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
      expect_same_bits(rack, sum);
      for (std::size_t i = 0; i < x[0].size(); ++i) {
        const float y = rack.floats(2, sum)[i];
        ASSERT_TRUE(i / block == 7 ? std::isnan(y) : y == 1.5F) << i << ": " << y;
      }
      rack.expect_healthy();
    }
  }
}

// Exact sums: the value's alone, and of Inf too; what quantised floats have no exponent for has a sum.
TEST_P(HazardBits, no_number_in_an_exact_sum_is_nan_alone) {
  for (const float broken : {kNan, kInfinity, -kInfinity}) {
    HazardRack rack({.world = 3});
    rack.join();
    lose(rack);
    Floats x(3, std::vector<float>(300, 0.5F));
    x[1][123] = broken;
    x[0][124] = 0x1.8p127F;
    x[2][124] = -0x1p127F;
    const std::size_t sum = rack.reduce_floats(x, propagate(WireType::kExact));
    ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
    expect_same_bits(rack, sum);
    for (std::size_t i = 0; i < 300; ++i) {
      const float y = rack.floats(2, sum)[i];
      ASSERT_TRUE(i == 123 ? std::isnan(y) : y == (i == 124 ? 0x1p126F : 1.5F)) << i << ": " << y;
    }
    rack.expect_healthy();
  }
}

// A late rank's values are whole or absent, whatever the others have: there is no exponent that could cut them.
TEST(HazardBitsOf, a_late_rank_in_an_exact_sum) {
  HazardRack rack({.world = 3, .stragglers = members::StragglerPolicy{30 * kMillisecond, 1}});
  rack.join();
  rack.lose({.worker = 1, .up = true, .type = PacketType::kContribute}, 1);
  const std::size_t sum =
      rack.reduce_floats({{1.0F, 0.5F}, {0x1p100F, -0x1p-100F}, {0.5F, 0.5F}}, propagate(WireType::kExact));
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  expect_same_bits(rack, sum);
  for (const std::uint16_t r : rack.ranks()) {
    const OperationStats& stats = rack.stats(r, sum);
    EXPECT_FALSE(stats.overflow);
    const bool in_it = !stats.incomplete;
    EXPECT_EQ(rack.floats(r, sum)[0], in_it ? 0x1p100F : 1.5F);
    EXPECT_EQ(rack.floats(r, sum)[1], 1.0F);
  }
}

// Who did not ask for it fails by name, and with it the job.
TEST(HazardBitsOf, others_who_did_not_ask_for_nan_fail_by_name) {
  for (const WireType wire : {WireType::kInt32, WireType::kExact}) {
    HazardRack rack({.world = 2});
    rack.join();
    const std::vector<float> broken(100, kNan);
    const std::vector<float> whole(100, 1.0F);
    std::vector<float> out(100);
    const std::span<const float> in[] = {std::span(broken), std::span(whole)};
    const std::span<float> to(out);
    engine::OperationOptions fail;
    fail.wire = wire;
    ASSERT_TRUE(rack.worker(0).engine().allreduce(std::span{&in[0], 1}, std::span{&to, 1}, rack.now(),
                                                  propagate(wire)));
    ASSERT_TRUE(rack.worker(1).engine().allreduce(std::span{&in[1], 1}, std::span{&to, 1}, rack.now(), fail));
    for (const std::uint16_t r : rack.ranks()) rack.worker(r).resume_service();
    ASSERT_TRUE(rack.until([&] { return rack.worker(0).engine().state() == engine::EngineState::kClosed; }));
    EXPECT_NE(rack.worker(0).engine().why_closed().text().find("another rank has one that is NaN"),
              std::string::npos)
        << rack.worker(0).engine().why_closed().text();
  }
}

// Sparse values: most contributions are headers, and so are the results to which nobody has a value.
TEST_P(HazardBits, zeros_are_left_out_and_sums_are_exact) {
  for (const WireType wire : {WireType::kInt32, WireType::kInt16}) {
    HazardRack rack({.world = 3});
    rack.join();
    lose(rack);
    Floats x(3, std::vector<float>(64 * 32));
    for (std::size_t i = 0; i < x[0].size(); ++i) {
      if (i / 32 % 8 == 1) x[1][i] = 1.0F;
      if (i / 32 % 8 == 2) x[2][i] = x[0][i] = -0.5F;
    }
    engine::OperationOptions options;
    options.wire = wire;
    const std::size_t sum = rack.reduce_floats(x, options);
    ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
    expect_same_bits(rack, sum);
    for (std::size_t i = 0; i < x[0].size(); ++i)
      ASSERT_EQ(rack.floats(0, sum)[i], x[0][i] + x[1][i] + x[2][i]);
    EXPECT_GT(rack.counted(0).zeros, rack.counted(0).contributions / 3);
    rack.expect_healthy();
  }
}

// One rank has values, the others none: whoever comes first, the sum is what it sent.
TEST_P(HazardBits, a_broadcast_costs_the_others_headers) {
  HazardRack rack({.world = 3});
  rack.join();
  lose(rack);
  std::vector<std::vector<std::int32_t>> x(3, std::vector<std::int32_t>(1000));
  for (std::size_t i = 0; i < 1000; ++i) x[2][i] = static_cast<std::int32_t>(i) - 500;
  const std::size_t sum = rack.reduce_ints(x);
  rack.expect_exact(sum);
  EXPECT_EQ(rack.counted(0).zeros, rack.counted(0).contributions + rack.counted(0).retransmissions);
}

// int16 is off by no more than the page says, and its OVERFLOW cannot be set.
TEST_P(HazardBits, int16_keeps_the_error_bound) {
  HazardRack rack({.world = 3});
  rack.join();
  lose(rack);
  Floats x(3, std::vector<float>(1000));
  for (std::size_t r = 0; r < 3; ++r)
    for (std::size_t i = 0; i < 1000; ++i)
      x[r][i] = static_cast<float>(std::sin(static_cast<double>(7 * i + r))) *
                std::exp2(static_cast<float>(i / 32 % 9));
  engine::OperationOptions options;
  options.wire = WireType::kInt16;
  const std::size_t sum = rack.reduce_floats(x, options);
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  expect_same_bits(rack, sum);
  for (std::size_t i = 0; i < 1000; ++i) {
    const std::size_t end = std::min<std::size_t>(i / 32 * 32 + 32, 1000);
    float largest = 0;
    double exact = 0;
    for (const auto& of : x) {
      for (std::size_t k = i / 32 * 32; k < end; ++k) largest = std::max(largest, std::fabs(of[k]));
      exact += static_cast<double>(of[i]);
    }
    const double y = static_cast<double>(rack.floats(1, sum)[i]);
    const double exponent = std::ceil(std::log2(static_cast<double>(largest)));
    ASSERT_LE(std::fabs(y - exact), 3 * std::exp2(exponent - 13 - 1) + std::exp2(-24) * std::fabs(y)) << i;
  }
  EXPECT_FALSE(rack.stats(0, sum).overflow);
}

// Ranks that send what leaves 16 bits: no sum of theirs is delivered as if it were right.
TEST(HazardBitsOf, a_lane_that_wraps_is_a_bad_sum) {
  HazardRack rack({.world = 2});
  rack.join();
  rack.expect_healthy();
  for (const std::uint16_t r : rack.ranks())
    rack.inject_up(r, make_contribution(rack.row(), {.rank = Rank{r},
                                                     .chunk = Chunk{3},
                                                     .values = std::vector<std::int32_t>(32, 20'000),
                                                     .dtype = static_cast<std::uint8_t>(Dtype::kInt16),
                                                     .total = 32,
                                                     .sequence = 1000}));
  rack.run_for(kMillisecond);
  EXPECT_EQ(rack.drops(Drop::kBadSum), 1U);
  EXPECT_EQ(rack.box().occupancy(rack.id()), 0U);
}

// A late rank's values that are no numbers count as nothing, and OVERFLOW says that something was cut.
TEST(HazardBitsOf, a_late_rank_without_numbers) {
  HazardRack rack({.world = 3, .stragglers = members::StragglerPolicy{30 * kMillisecond, 1}});
  rack.join();
  rack.lose({.worker = 1, .up = true, .type = PacketType::kContribute}, 1);
  const std::size_t sum = rack.reduce_floats({{1.0F, 0.5F}, {kNan, kInfinity}, {0.5F, 0.5F}}, propagate());
  ASSERT_TRUE(rack.until([&] { return rack.done(sum); }));
  expect_same_bits(rack, sum);
  for (const std::uint16_t r : rack.ranks()) {
    EXPECT_TRUE(rack.stats(r, sum).overflow);
    EXPECT_EQ(rack.floats(r, sum)[0], 1.5F);
    EXPECT_EQ(rack.floats(r, sum)[1], 2.0F) << "Inf is cut to the largest that the others can have";
  }
}

}  // namespace
}  // namespace tally::sim
