// Block floating point: exponents at both ends, and the error bound of docs/protocol.md as a property over
// simulated ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/chunk_codec.h"
#include "kernels/kernels.h"

namespace tally {
namespace {

std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(std::fabs(x)); }

TEST(BlockExponent, SmallestPowerNotBelow) {
  EXPECT_EQ(engine::block_exponent(bits_of(1.0F)), 0);
  EXPECT_EQ(engine::block_exponent(bits_of(std::nextafter(1.0F, 2.0F))), 1);
  EXPECT_EQ(engine::block_exponent(bits_of(std::nextafter(1.0F, 0.0F))), 0);
  EXPECT_EQ(engine::block_exponent(bits_of(0.5F)), -1);
  EXPECT_EQ(engine::block_exponent(bits_of(3.0F)), 2);
  for (int e = engine::kLeastExponent; e <= engine::kGreatestExponent; ++e)
    EXPECT_EQ(engine::block_exponent(bits_of(std::ldexp(1.0F, e))), e);
}

TEST(BlockExponent, Ends) {
  EXPECT_EQ(engine::block_exponent(0), engine::kZeroBlock);
  EXPECT_EQ(engine::block_exponent(1), engine::kLeastExponent) << "the smallest denormal";
  EXPECT_EQ(engine::block_exponent(bits_of(std::numeric_limits<float>::min())), engine::kLeastExponent);
  EXPECT_EQ(engine::block_exponent(bits_of(std::ldexp(1.0F, -97))), engine::kLeastExponent);
  EXPECT_EQ(engine::block_exponent(bits_of(std::nextafter(std::ldexp(1.0F, -96), 1.0F))),
            engine::kLeastExponent + 1);
  EXPECT_EQ(engine::block_exponent(engine::kGreatestMagnitude), engine::kGreatestExponent);
  EXPECT_EQ(engine::kGreatestMagnitude, bits_of(std::ldexp(1.0F, 126)));
  for (const float no_number :
       {std::nextafter(0x1p126F, 0x1p127F), 0x1p127F, std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()})
    EXPECT_EQ(engine::block_exponent(bits_of(no_number)), kNotANumber);
}

TEST(BlockExponent, ScalesAreExactAndNormal) {
  for (std::uint32_t of = 0; of < 128; ++of) {
    const std::uint32_t world = of / 2 + 1;
    const Dtype dtype = of % 2 == 0 ? Dtype::kFloat32 : Dtype::kInt16;
    const std::int64_t most = dtype == Dtype::kInt16 ? 0x7fff : 0x7fffffff;
    const int s = engine::sum_shift(world, dtype);
    EXPECT_LE((std::int64_t{1} << s) * world, most);
    EXPECT_GT((std::int64_t{1} << (s + 1)) * world, most);
    for (int e = engine::kLeastExponent; e <= engine::kGreatestExponent; ++e) {
      EXPECT_EQ(engine::quantise_scale(s, e), std::ldexp(1.0F, s - e));
      EXPECT_EQ(engine::dequantise_scale(s, e), std::ldexp(1.0F, e - s));
      EXPECT_TRUE(std::isnormal(engine::quantise_scale(s, e)) &&
                  std::isnormal(engine::dequantise_scale(s, e)));
    }
    EXPECT_EQ(engine::quantise_scale(s, engine::kZeroBlock), 0.0F);
    EXPECT_EQ(engine::dequantise_scale(s, engine::kZeroBlock), 0.0F);
  }
}

TEST(BlockExponent, WhatAResultMayCarry) {
  for (const int e : {-128, -127, -96, 0, 127}) EXPECT_TRUE(engine::valid_exponent(e)) << e;
  for (const int e : {-126, -97}) EXPECT_FALSE(engine::valid_exponent(e)) << e;
}

// One chunk through `world` ranks as the wire would carry it.
struct Chunked {
  std::vector<float> y;
  int exponent = 0;
};

engine::EngineOperation operation_on(std::vector<float>& in, std::vector<float>& out) {
  engine::EngineOperation op(engine::OperationId{1}, ElementType::kFloat32, Dtype::kFloat32,
                             {{in.data(), out.data(), in.size()}}, {}, 0);
  op.number(0, 2224, 16, 1);
  return op;
}

std::uint32_t word_at(const std::vector<std::byte>& wire, std::size_t i) {
  std::uint32_t w = 0;
  std::copy_n(wire.begin() + static_cast<std::ptrdiff_t>(4 * i), 4, reinterpret_cast<std::byte*>(&w));
  return __builtin_bswap32(w);
}

Chunked reduce(std::vector<std::vector<float>>& ranks, const kernels::Kernels& kernels) {
  const auto world = static_cast<std::uint32_t>(ranks.size());
  const std::size_t n = ranks[0].size();
  const int s = engine::sum_shift(world);
  Chunked result{std::vector<float>(n), kNoExponent};
  std::vector<float> unused(n);
  for (auto& x : ranks) {
    const engine::EngineOperation op = operation_on(x, unused);
    result.exponent =
        std::max(result.exponent, engine::block_exponent(engine::max_abs_bits(op, op.range(0), kernels)));
  }
  std::vector<std::uint32_t> sum(n);
  std::vector<std::int64_t> exact(n);
  std::vector<std::byte> wire((n + 15) / 16 * 64);
  for (auto& x : ranks) {
    const engine::EngineOperation op = operation_on(x, unused);
    const kernels::Packed packed = engine::encode_chunk(op, op.range(0), result.exponent, s, wire, kernels);
    EXPECT_LE(packed.magnitude, 0x7fffffffU / world);
    EXPECT_EQ(packed.sums, kernels.sums(wire.data(), static_cast<std::uint32_t>(wire.size() / 4)));
    for (std::size_t i = 0; i < n; ++i) {
      sum[i] += word_at(wire, i);
      exact[i] += static_cast<std::int32_t>(word_at(wire, i));
    }
    for (std::size_t i = n; i < wire.size() / 4; ++i) EXPECT_EQ(word_at(wire, i), 0U);
  }
  for (std::size_t i = 0; i < n; ++i) {
    EXPECT_EQ(exact[i], static_cast<std::int32_t>(sum[i])) << "no sum leaves int32";
    const std::uint32_t w = __builtin_bswap32(sum[i]);
    std::copy_n(reinterpret_cast<const std::byte*>(&w), 4, wire.begin() + static_cast<std::ptrdiff_t>(4 * i));
  }
  const engine::EngineOperation op = operation_on(result.y, result.y);
  engine::decode_chunk(op, op.range(0), result.exponent, s, wire, kernels);
  return result;
}

void expect_bound(std::vector<std::vector<float>>& ranks) {
  const auto world = static_cast<int>(ranks.size());
  const int s = engine::sum_shift(static_cast<std::uint32_t>(world));
  for (const kernels::Kernels* kernels : kernels::usable_kernels()) {
    SCOPED_TRACE(std::string(kernels->name));
    const Chunked c = reduce(ranks, *kernels);
    for (std::size_t i = 0; i < c.y.size(); ++i) {
      long double want = 0;
      for (const auto& x : ranks) want += static_cast<long double>(x[i]);
      const auto y = static_cast<long double>(c.y[i]);
      if (c.exponent == engine::kZeroBlock) {
        ASSERT_EQ(c.y[i], 0.0F);
        continue;
      }
      const long double bound =
          world * std::ldexp(1.0L, c.exponent - s - 1) + std::ldexp(1.0L, -24) * std::fabs(y);
      ASSERT_LE(std::fabs(y - want), bound) << "world " << world << " E " << c.exponent << " i " << i;
    }
  }
}

TEST(Quantise, ErrorBoundOverRandomBlocks) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 400; ++round) {
    const std::size_t world = 1 + random() % 64;
    const std::size_t n = 1 + random() % 64;
    const int middle = static_cast<int>(random() % 220) - 120;
    std::vector<std::vector<float>> ranks(world, std::vector<float>(n));
    for (auto& x : ranks)
      for (auto& v : x) {
        const int e = std::clamp(middle + static_cast<int>(random() % 12) - 6, -149, 119);
        v = std::ldexp(static_cast<float>(random() % (1U << 24)) / (1U << 23) - 1.0F, e);
        if (random() % 16 == 0) v = 0;
      }
    expect_bound(ranks);
    if (HasFatalFailure()) return;
  }
}

TEST(Quantise, ErrorBoundOnSpecialBlocks) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float big = std::ldexp(1.0F, 119);  // 64 of them still have a float sum
  const std::vector<float> values{0.0F,
                                  -0.0F,
                                  tiny,
                                  -tiny,
                                  std::numeric_limits<float>::min(),
                                  1.0F,
                                  -1.0F,
                                  0.5F,
                                  std::ldexp(1.0F, -96),
                                  std::ldexp(1.0F, -97),
                                  big,
                                  -big,
                                  1.5F};
  for (const std::size_t world : {1U, 2U, 3U, 8U, 64U})
    for (const float a : values)
      for (const float b : values) {
        std::vector<std::vector<float>> ranks(world, std::vector<float>{a, b, a, 0.0F});
        ranks.back() = {b, a, -a, 0.0F};
        expect_bound(ranks);
        if (HasFatalFailure()) return;
      }
}

TEST(Quantise, ExactPowersOfTwoAreExact) {
  for (int e = -96; e <= 120; ++e) {
    std::vector<std::vector<float>> ranks(2,
                                          {std::ldexp(1.0F, e), -std::ldexp(1.0F, e), std::ldexp(1.0F, e)});
    ranks[1][1] = std::ldexp(1.0F, e);
    for (const kernels::Kernels* kernels : kernels::usable_kernels()) {
      const Chunked c = reduce(ranks, *kernels);
      EXPECT_EQ(c.exponent, e);
      EXPECT_EQ(c.y, (std::vector<float>{std::ldexp(1.0F, e + 1), 0.0F, std::ldexp(1.0F, e + 1)}));
    }
  }
}

TEST(Quantise, SumBeyondFloatIsInf) {
  std::vector<std::vector<float>> ranks(8, {std::ldexp(1.0F, 126)});
  EXPECT_EQ(reduce(ranks, kernels::best_kernels()).y[0], std::numeric_limits<float>::infinity());
}

TEST(Quantise, ZeroBlocks) {
  std::vector<std::vector<float>> ranks(3, std::vector<float>(20, -0.0F));
  const Chunked c = reduce(ranks, kernels::best_kernels());
  EXPECT_EQ(c.exponent, engine::kZeroBlock);
  for (const float y : c.y) EXPECT_EQ(std::bit_cast<std::uint32_t>(y), 0U);
}

TEST(Quantise, BadElementsAreFound) {
  for (const float bad : {std::nanf(""), -std::numeric_limits<float>::infinity(),
                          std::nextafter(std::ldexp(1.0F, 126), std::numeric_limits<float>::infinity())}) {
    std::vector<float> x(40, 1.0F);
    x[33] = bad;
    const engine::EngineOperation op = operation_on(x, x);
    EXPECT_GT(engine::max_abs_bits(op, op.range(0), kernels::best_kernels()), engine::kGreatestMagnitude);
    ASSERT_TRUE(engine::find_bad_element(op, op.range(0), kernels::best_kernels()));
    EXPECT_EQ(engine::find_bad_element(op, op.range(0), kernels::best_kernels())->element, 33U);
  }
  std::vector<float> fine(4, std::ldexp(1.0F, 126));
  const engine::EngineOperation op = operation_on(fine, fine);
  EXPECT_FALSE(engine::find_bad_element(op, op.range(0), kernels::best_kernels()));
}

TEST(Codec, PiecesEqualTheWhole) {
  std::vector<float> x(100);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) - 50.25F;
  std::vector<float> y(100);
  std::vector<engine::Segment> split{{x.data(), y.data(), 1},
                                     {x.data() + 1, y.data() + 1, 0},
                                     {x.data() + 1, y.data() + 1, 70},
                                     {x.data() + 71, y.data() + 71, 29}};
  engine::EngineOperation pieces(engine::OperationId{1}, ElementType::kFloat32, Dtype::kFloat32, split, {},
                                 0);
  pieces.number(0, 2224, 16, 1);
  const engine::EngineOperation whole = operation_on(x, y);
  for (const kernels::Kernels* k : kernels::usable_kernels()) {
    std::vector<std::byte> a(112 * 4);
    std::vector<std::byte> b(112 * 4, std::byte{0xff});
    const kernels::Packed pa = engine::encode_chunk(whole, whole.range(0), 6, 29, a, *k);
    const kernels::Packed pb = engine::encode_chunk(pieces, pieces.range(0), 6, 29, b, *k);
    EXPECT_EQ(a, b);
    EXPECT_EQ(pa.sums, pb.sums);
    EXPECT_EQ(pa.magnitude, pb.magnitude);
    EXPECT_EQ(engine::max_abs_bits(whole, whole.range(0), *k),
              engine::max_abs_bits(pieces, pieces.range(0), *k));
    engine::decode_chunk(pieces, pieces.range(0), 6, 29, a, *k);
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 1e-6);
  }
}

}  // namespace
}  // namespace tally
