// The values that every rank can make for every rank, and the check of sums against the protocol's bound.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "engine/chunk_codec.h"
#include "perf/sum_check.h"

namespace tally {
namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::uint64_t kIteration = 3;
constexpr std::uint16_t kElements = 352;

std::vector<float> exact_sums(std::size_t n, std::uint64_t first, float scale, std::uint32_t world) {
  std::vector<double> sums(n);
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    const perf::ValueStream stream(kSeed, kIteration, rank);
    for (std::size_t i = 0; i < n; ++i) sums[i] += perf::float_value(stream.at(first + i), scale);
  }
  return {sums.begin(), sums.end()};
}

TEST(PerfValues, EachGivesWhatAtGivesForEveryAlignment) {
  const perf::ValueStream stream(kSeed, kIteration, 1);
  for (std::uint64_t first = 0; first < 4; ++first) {
    for (std::size_t n = 0; n < 6; ++n) {
      std::vector<std::int32_t> values;
      stream.each(first, n, [&](std::size_t k, std::int32_t value) {
        EXPECT_EQ(k, values.size());
        values.push_back(value);
      });
      ASSERT_EQ(values.size(), n);
      for (std::size_t k = 0; k < n; ++k) EXPECT_EQ(values[k], stream.at(first + k));
    }
  }
}

TEST(PerfValues, SeedIterationRankAndElementAllMatter) {
  std::set<std::int32_t> seen;
  for (const std::uint64_t seed : {1U, 2U}) {
    for (const std::uint64_t iteration : {0U, 1U}) {
      for (const std::uint32_t rank : {0U, 1U}) {
        for (const std::uint64_t i : {0U, 1U}) seen.insert(perf::ValueStream(seed, iteration, rank).at(i));
      }
    }
  }
  EXPECT_EQ(seen.size(), 16U);
  EXPECT_EQ(perf::ValueStream(1, 0, 1).at(5), perf::ValueStream(1, 0, 1).at(5));
}

TEST(PerfValues, AreSpreadLikeGradients) {
  constexpr int kValues = 100'000;
  const perf::ValueStream stream(kSeed, 0, 0);
  double sum = 0;
  int small = 0;
  for (std::uint64_t i = 0; i < kValues; ++i) {
    const double value = stream.at(i);
    EXPECT_LE(std::abs(value), 0x1p30);
    sum += value;
    if (std::abs(value) < 0x1p28) ++small;
  }
  EXPECT_LT(std::abs(sum / kValues), 0x1p30 * 0.01) << "the mean is near 0";
  EXPECT_GT(small, kValues / 2) << "most are below a quarter of the largest";
  EXPECT_LT(small, kValues * 7 / 10) << "and not all";
}

TEST(PerfValues, ScalesOfTensorsDifferAndStayNormal) {
  std::set<float> scales;
  for (std::uint64_t tensor = 0; tensor < 199; ++tensor) {
    const float scale = perf::tensor_scale(kSeed, tensor);
    EXPECT_GE(scale, 0x1p-47F);
    EXPECT_LT(scale, 0x1p-34F);
    scales.insert(scale);
  }
  EXPECT_GT(scales.size(), 190U);
}

TEST(PerfValues, IntSumsOf64RanksStayInside) {
  constexpr std::int64_t kLargest = std::int64_t{1} << 30;
  EXPECT_LE(64 * std::int64_t{perf::int_value(static_cast<std::int32_t>(kLargest))},
            std::int64_t{std::numeric_limits<std::int32_t>::max()});
  EXPECT_GE(64 * std::int64_t{perf::int_value(static_cast<std::int32_t>(-kLargest))},
            std::int64_t{std::numeric_limits<std::int32_t>::min()});
}

TEST(PerfBound, AgreesWithTheEngineThoughWrittenApart) {
  for (std::uint32_t world = 1; world <= kMaxWorld; ++world)
    for (const Dtype dtype : {Dtype::kFloat32, Dtype::kInt16})
      EXPECT_EQ(perf::bound_shift(world, dtype == Dtype::kInt16 ? 16 : 32), engine::sum_shift(world, dtype));
  for (const float x : {1.0F, 0.75F, 1.0000001F, 2.0F, 0x1p-96F, 0x1p-97F, 0x1p-149F, 0x1p126F, 0x1.8p125F})
    EXPECT_EQ(perf::bound_exponent(static_cast<double>(x)),
              engine::block_exponent(std::bit_cast<std::uint32_t>(x)))
        << x;
}

TEST(PerfBound, ExampleOfTheProtocol) {
  // docs/protocol.md, 10: N = 2, s = 29, E = 2.
  EXPECT_EQ(perf::bound_shift(2), 29);
  EXPECT_EQ(perf::bound_exponent(2.5), 2);
  EXPECT_EQ(perf::rounding_bound(2, 2.5), 2 * std::ldexp(1.0, 2 - 29 - 1));
  EXPECT_EQ(perf::rounding_bound(2, 0), 0);
}

TEST(PerfCheck, RightSumsHaveNothingWrongAndUseSomeOfTheBound) {
  const float scale = perf::tensor_scale(kSeed, 1);
  for (const std::uint64_t first : {0U, 1U, 4097U}) {
    const auto sums = exact_sums(1000, first, scale, 4);
    const auto result = perf::check_sums(sums, first, scale, {kSeed, kIteration, 4, kElements});
    EXPECT_EQ(result.wrong, 0U);
    EXPECT_GT(result.largest_error, 0);
    EXPECT_LE(result.largest_error, 1);
  }
}

TEST(PerfCheck, FindsOneErrorJustOutsideTheBoundAndNamesIt) {
  const float scale = perf::tensor_scale(kSeed, 1);
  const perf::SumCheckOptions options{kSeed, kIteration, 4, kElements};
  auto sums = exact_sums(1000, 0, scale, 4);
  double largest = 0;  // of the second packet, which element 400 belongs to
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    for (std::uint64_t i = 352; i < 704; ++i) {
      const float x = perf::float_value(perf::ValueStream(kSeed, kIteration, rank).at(i), scale);
      largest = std::max(largest, static_cast<double>(std::abs(x)));
    }
  }
  const double right = sums[400];
  const double bound = perf::rounding_bound(4, largest) + 0x1p-24 * std::abs(right);
  sums[400] = static_cast<float>(right + 0.4 * bound);
  EXPECT_EQ(perf::check_sums(sums, 0, scale, options).wrong, 0U);
  sums[400] = static_cast<float>(right + 3 * bound);
  const auto result = perf::check_sums(sums, 0, scale, options);
  EXPECT_EQ(result.wrong, 1U);
  EXPECT_EQ(result.first_wrong, 400U);
  EXPECT_EQ(result.got, static_cast<double>(sums[400]));
  EXPECT_NEAR(result.expected, right, bound);
}

TEST(PerfCheck, NanAndInfinityAreWrong) {
  const float scale = perf::tensor_scale(kSeed, 1);
  auto sums = exact_sums(64, 0, scale, 2);
  sums[3] = std::numeric_limits<float>::quiet_NaN();
  sums[9] = std::numeric_limits<float>::infinity();
  sums[10] = -std::numeric_limits<float>::infinity();
  const auto result = perf::check_sums(sums, 0, scale, {kSeed, kIteration, 2, kElements});
  EXPECT_EQ(result.wrong, 3U);
  EXPECT_EQ(result.first_wrong, 3U);
}

TEST(PerfCheck, AMissingOrForeignContributionIsWrong) {
  const float scale = perf::tensor_scale(kSeed, 1);
  const auto three = exact_sums(1000, 0, scale, 3);
  EXPECT_GT(perf::check_sums(three, 0, scale, {kSeed, kIteration, 4, kElements}).wrong, 990U);
  const auto four = exact_sums(1000, 0, scale, 4);
  EXPECT_GT(perf::check_sums(four, 0, scale, {kSeed, kIteration + 1, 4, kElements}).wrong, 990U);
}

// The bound of 16 bits over blocks of twice as many values; of a broadcast the first rank's values alone
// count.
TEST(PerfCheck, SixteenBitsAndZerosOfTheOthers) {
  const float scale = perf::tensor_scale(kSeed, 1);
  auto sums = exact_sums(1000, 0, scale, 1);
  perf::SumCheckOptions options{kSeed, kIteration, 4, kElements, 1};
  EXPECT_EQ(perf::check_sums(sums, 0, scale, options).wrong, 0U);
  options.valued = 4;
  EXPECT_GT(perf::check_sums(sums, 0, scale, options).wrong, 990U);
  options.valued = 1;
  const float largest = 0x1p30F * scale;
  const auto fine = static_cast<float>(perf::rounding_bound(4, static_cast<double>(largest) * 0.9, 16));
  sums[400] += fine * 0.25F;
  EXPECT_EQ(perf::check_sums(sums, 0, scale, options).wrong, 1U) << "too much for 32 bits";
  options.bits = 16;
  EXPECT_EQ(perf::check_sums(sums, 0, scale, options).wrong, 0U);
  sums[400] += fine * 4;
  EXPECT_EQ(perf::check_sums(sums, 0, scale, options).wrong, 1U);
}

TEST(PerfCheck, IntSumsAreExact) {
  std::vector<std::int32_t> sums(1500);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    std::vector<std::int32_t> one(sums.size());
    perf::fill(one, perf::ValueStream(kSeed, kIteration, rank), 11);
    for (std::size_t i = 0; i < one.size(); ++i) sums[i] += one[i];
  }
  const perf::SumCheckOptions options{kSeed, kIteration, 3, kElements};
  EXPECT_EQ(perf::check_sums(sums, 11, 1, options).wrong, 0U);
  ++sums[1200];
  const auto result = perf::check_sums(sums, 11, 1, options);
  EXPECT_EQ(result.wrong, 1U);
  EXPECT_EQ(result.first_wrong, 1200U);
  EXPECT_EQ(result.got, result.expected + 1);
}

TEST(PerfCheck, ResultsAddUpAndKeepTheFirstWrong) {
  perf::SumCheckResult all;
  all.add({.largest_error = 0.5});
  all.add({.wrong = 2, .first_wrong = 9, .got = 1, .expected = 2, .largest_error = 0.25});
  all.add({.wrong = 1, .first_wrong = 4});
  EXPECT_EQ(all.wrong, 3U);
  EXPECT_EQ(all.first_wrong, 9U);
  EXPECT_EQ(all.largest_error, 0.5);
}

}  // namespace
}  // namespace tally
