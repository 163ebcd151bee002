// Floats as digits: sums that are exact and rounded once, in one round trip.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "engine/exact_sum.h"
#include "engine_testbed.h"

namespace tally::testbed {
namespace {

using engine::kDigits;
using testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr float kTiny = std::numeric_limits<float>::denorm_min();

// As the box adds them.
std::optional<float> sum_of(const std::vector<float>& values) {
  std::array<std::int32_t, kDigits> sums{};
  for (const float x : values) {
    std::array<std::int32_t, kDigits> digits{};
    engine::to_digits(x, digits);
    for (std::size_t i = 0; i < kDigits; ++i) {
      EXPECT_FALSE(__builtin_add_overflow(sums.at(i), digits.at(i), &sums.at(i)));
    }
  }
  return engine::from_digits(sums);
}

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

TEST(ExactSum, OneValueIsItself) {
  std::mt19937 random(1);
  for (int i = 0; i < 200'000; ++i) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (std::isfinite(x) && x != 0) {
      EXPECT_EQ(bits(*sum_of({x})), bits(x));
    }
  }
  for (const float x : {0.0F, 1.0F, -1.0F, kMost, -kMost, kTiny, -kTiny, 0x1p-126F, 0x1.fffffep-127F})
    EXPECT_EQ(bits(*sum_of({x})), bits(x)) << x;
  EXPECT_EQ(bits(*sum_of({-0.0F, -0.0F})), 0U) << "the sum of zeros is +0";
}

// Against the compiler's conversion of integers of 128 bits, which is rounded once.
TEST(ExactSum, IsTheNearestFloat) {
  std::mt19937_64 random(2);
  for (std::uint64_t round = 0; round < 100'000; ++round) {
    std::vector<float> values(2 + random() % 63);
    __int128 exact = 0;
    for (float& x : values) {
      const auto mantissa = static_cast<std::int32_t>(random() % (1U << 25)) - (1 << 24);
      const auto shift = static_cast<int>(random() % (round % 90 + 1));
      x = std::ldexp(static_cast<float>(mantissa), shift - 60);
      exact += static_cast<__int128>(mantissa) << shift;
    }
    ASSERT_EQ(bits(*sum_of(values)), bits(std::ldexp(static_cast<float>(exact), -60))) << round;
  }
}

TEST(ExactSum, TiesGoToTheEvenOneAndABitBelowDecides) {
  constexpr float kUlp = 0x1p-23F;  // of 1
  EXPECT_EQ(sum_of({1.0F, kUlp / 2}), 1.0F);
  EXPECT_EQ(sum_of({1.0F + kUlp, kUlp / 2}), 1.0F + 2 * kUlp);
  EXPECT_EQ(sum_of({1.0F, kUlp / 2, kTiny}), 1.0F + kUlp);
  EXPECT_EQ(sum_of({1.0F + kUlp, kUlp / 2, -kTiny}), 1.0F + kUlp);
  EXPECT_EQ(sum_of({-1.0F, -kUlp / 2, -kTiny}), -1.0F - kUlp);
}

TEST(ExactSum, LosesNothingToWhatCancels) {
  EXPECT_EQ(sum_of({kMost, kTiny, -kMost}), kTiny);
  EXPECT_EQ(sum_of({0x1p100F, 1.0F, -0x1p100F, -0x1p-100F}), 1.0F);
  EXPECT_EQ(sum_of({kMost, kMost, -kMost}), kMost) << "no step of the way leaves the range";
  EXPECT_EQ(bits(*sum_of({1.5F, -1.5F})), 0U);
}

TEST(ExactSum, BeyondTheLargestIsInf) {
  EXPECT_EQ(sum_of(std::vector<float>(64, kMost)), kInf);
  EXPECT_EQ(sum_of(std::vector<float>(64, -kMost)), -kInf);
  EXPECT_EQ(sum_of({kMost, 0x1p103F}), kInf) << "half a unit above the largest, which is odd";
  EXPECT_EQ(sum_of({kMost, 0x1p103F, -kTiny}), kMost);
}

TEST(ExactSum, NoNumberStaysOneWhateverIsAdded) {
  for (const float bad : {kNan, kInf, -kInf}) {
    EXPECT_EQ(sum_of({bad}), std::nullopt);
    std::vector<float> values(64, -kMost);
    values.front() = bad;
    EXPECT_EQ(sum_of(values), std::nullopt);
    EXPECT_EQ(sum_of(std::vector<float>(64, bad)), std::nullopt);
  }
  EXPECT_TRUE(sum_of(std::vector<float>(64, kMost)));
}

engine::OperationOptions wire(WireType type, bool mean = false) {
  engine::OperationOptions options;
  options.wire = type;
  options.mean = mean;
  return options;
}

// Packets of 32 words: two floats each. No exponents: as many packets as chunks, and one round trip.
TEST(ExactReduce, TakesNoPrimingPackets) {
  for (const std::size_t n : {0U, 1U, 2U, 3U, 77U}) {
    Rig rig({});
    ASSERT_TRUE(rig.run_until_running());
    std::vector<float> a(n, 0x1p60F);
    std::vector<float> b(n, 1.0F);
    for (std::size_t i = 0; i < n; i += 2) b[i] = -0x1p60F;
    const TimeNs begun = rig.now;
    const auto id = *rig[0].allreduce(std::span<float>(a), rig.now, wire(WireType::kExact));
    (void)rig[1].allreduce(std::span<float>(b), rig.now, wire(WireType::kExact));
    for (const auto& r : rig.finish(id)) {
      ASSERT_TRUE(r) << n;
      EXPECT_EQ(r->elements, n);
      EXPECT_EQ(r->chunks, std::max<std::size_t>(1, (n + 1) / 2));
      EXPECT_EQ(r->packets, r->chunks);
      EXPECT_FALSE(r->overflow);
    }
    if (n <= 32) {
      EXPECT_EQ(rig.now - begun, 2 * rig.latency) << "the window is 16 packets";
    }
    for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(a[i], i % 2 == 0 ? 0.0F : 0x1p60F) << i;
    EXPECT_EQ(b, a);
  }
}

TEST(ExactReduce, TheShortestIsExactWhereThatIsOnePacket) {
  for (const std::size_t n : {2U, 3U}) {
    Rig rig({});
    std::vector<float> a(n, 0x1p60F);
    std::vector<float> b(n, -0x1p60F);
    const auto id = *rig[0].allreduce(std::span<float>(a), 0, wire(WireType::kShortest));
    (void)rig[1].allreduce(std::span<float>(b), 0, wire(WireType::kShortest));
    for (const auto& r : rig.finish(id)) {
      ASSERT_TRUE(r);
      EXPECT_EQ(r->chunks, n == 2 ? 1U : 2U) << "3 floats: their exponent, and they";
    }
    EXPECT_EQ(a, std::vector<float>(n, 0.0F));
  }
}

TEST(ExactReduce, SpansAndTheMean) {
  Rig rig({});
  std::vector<float> a{1, 2, 3, 4, 5};
  std::vector<float> b{-2, 2, 0, 5, 0x1p-140F};
  const std::vector<std::span<float>> pieces{{a.data(), 1}, {a.data() + 1, 0}, {a.data() + 1, 4}};
  const auto id = *rig[0].allreduce(pieces, 0, wire(WireType::kExact, true));
  (void)rig[1].allreduce(std::span<float>(b), 0, wire(WireType::kExact, true));
  for (const auto& r : rig.finish(id)) ASSERT_TRUE(r);
  EXPECT_EQ(a, (std::vector<float>{-0.5F, 2, 1.5F, 4.5F, 2.5F}));
  EXPECT_EQ(b, a);
}

TEST(ExactReduce, NanAndInfFailByName) {
  for (const float bad : {kNan, kInf}) {
    Rig rig({});
    std::vector<float> a(100, kMost);
    std::vector<float> b = a;
    b[70] = bad;
    const auto id = *rig[0].allreduce(std::span<float>(a), 0, wire(WireType::kExact));
    (void)rig[1].allreduce(std::span<float>(b), 0, wire(WireType::kExact));
    ASSERT_TRUE(rig.run_until([&] { return rig[0].state() == engine::EngineState::kClosed; }));
    EXPECT_EQ(rig.completed.at({1, id}).error().code, ErrorCode::kQuantise);
    EXPECT_THAT(rig.completed.at({1, id}).error().what, HasSubstr("in tensor 0 at offset 70"));
  }
}

// Rank 0 lets NaN through, rank 1 did not ask for that: its operation fails, also if its only packet says so.
TEST(ExactReduce, AnothersNanFailsTheOperationOfOnePacket) {
  Rig rig({});
  std::vector<float> a{kNan};
  std::vector<float> b{1};
  engine::OperationOptions lets = wire(WireType::kShortest);
  lets.non_finite = NonFinite::kPropagate;
  const auto id = *rig[0].allreduce(std::span<float>(a), 0, lets);
  (void)rig[1].allreduce(std::span<float>(b), 0, wire(WireType::kShortest));
  ASSERT_TRUE(rig.run_until([&] { return rig.completed.contains({1, id}); }));
  const auto& failed = rig.completed.at({1, id});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kQuantise);
  EXPECT_THAT(failed.error().what, HasSubstr("another rank has one that is NaN"));
}

}  // namespace
}  // namespace tally::testbed
