#include "perf/sum_check.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tally/wire.h"

namespace tally::perf {
namespace {

constexpr int kExactBits = 384;
constexpr double kLargestFloat = std::numeric_limits<float>::max();

using Sums = std::array<double, 2 * kMaxElements>;

std::uint32_t valued(const SumCheckOptions& options) noexcept {
  return std::min(options.valued, options.world);
}

// Sums of all ranks' values, exact in float64 or nearly so; returns the largest abs(x).
double add_ranks(Sums& sums, std::uint64_t first, std::size_t n, float scale,
                 const SumCheckOptions& options) noexcept {
  std::fill_n(sums.begin(), n, 0.0);
  std::int32_t largest = 0;
  for (std::uint32_t rank = 0; rank < valued(options); ++rank) {
    ValueStream(options.seed, options.iteration, rank).each(first, n, [&](std::size_t k, std::int32_t value) {
      sums[k] += static_cast<double>(float_value(value, scale));
      largest = std::max(largest, value < 0 ? -value : value);
    });
  }
  return static_cast<double>(float_value(largest, scale));
}

void check_packet(std::span<const float> got, const Sums& sums, std::size_t at, double rounding,
                  SumCheckResult& result) noexcept {
  for (std::size_t k = 0; k < got.size(); ++k) {
    const double y = static_cast<double>(got[k]);
    const double error = std::abs(y - sums[k]);
    // The bound is for finite sums; an Inf must not widen its own.
    const double bound = rounding + kFloatHalfUnit * std::min(std::abs(y), kLargestFloat);
    if (error <= result.largest_error * bound) continue;
    if (error <= bound) {
      result.largest_error = error / bound;
    } else if (result.wrong++ == 0) {  // also NaN, which compares with nothing
      result.first_wrong = at + k;
      result.got = y;
      result.expected = sums[k];
    }
  }
}

}  // namespace

void SumCheckResult::add(const SumCheckResult& other) noexcept {
  if (wrong == 0 && other.wrong > 0) {
    first_wrong = other.first_wrong;
    got = other.got;
    expected = other.expected;
  }
  wrong += other.wrong;
  largest_error = std::max(largest_error, other.largest_error);
}

SumCheckResult check_sums(std::span<const float> sums, std::uint64_t first, float scale,
                          const SumCheckOptions& options) noexcept {
  SumCheckResult result;
  Sums expected;
  const std::size_t block = options.bits == 16 ? std::size_t{2} * options.elements : options.elements;
  for (std::size_t at = 0; at < sums.size(); at += block) {
    const auto packet = sums.subspan(at, std::min(block, sums.size() - at));
    const double largest = add_ranks(expected, first + at, packet.size(), scale, options);
    check_packet(packet, expected, at, rounding_bound(options.world, largest, options.bits), result);
  }
  return result;
}

SumCheckResult check_sums(std::span<const std::int32_t> sums, std::uint64_t first, float /*scale*/,
                          const SumCheckOptions& options) noexcept {
  constexpr std::size_t kBlock = 512;
  SumCheckResult result;
  std::array<std::uint32_t, kBlock> expected{};
  for (std::size_t at = 0; at < sums.size(); at += kBlock) {
    const std::size_t n = std::min(kBlock, sums.size() - at);
    expected.fill(0);
    for (std::uint32_t rank = 0; rank < valued(options); ++rank) {
      ValueStream(options.seed, options.iteration, rank)
          .each(first + at, n, [&](std::size_t k, std::int32_t value) {
            expected[k] += static_cast<std::uint32_t>(int_value(value));
          });
    }
    for (std::size_t k = 0; k < n; ++k) {
      const auto wanted = static_cast<std::int32_t>(expected[k]);
      if (sums[at + k] == wanted || result.wrong++ > 0) continue;
      result.first_wrong = at + k;
      result.got = sums[at + k];
      result.expected = wanted;
    }
  }
  return result;
}

int bound_shift(std::uint32_t world, int bits) noexcept {
  const std::uint32_t most = ((1U << (bits - 1)) - 1) / world;
  int shift = 0;
  while ((most >> (shift + 1)) != 0) ++shift;
  return shift;
}

int bound_exponent(double largest) noexcept {
  int exponent = 0;
  const double mantissa =
      std::frexp(largest, &exponent);  // largest = mantissa * 2^exponent, 0.5 <= mantissa < 1
  if (mantissa == 0.5) --exponent;
  return std::max(exponent, -96);
}

double rounding_bound(std::uint32_t world, double largest, int bits) noexcept {
  if (largest == 0) return 0;
  if (bits == kExactBits) return world * largest * 0x1p-53;
  return std::ldexp(static_cast<double>(world), bound_exponent(largest) - bound_shift(world, bits) - 1);
}

std::string bound_text(std::uint32_t world, int bits) {
  if (bits == kExactBits)
    return "abs(y - sum of x) <= 2^-24 * abs(y)\nexact, then rounded once (docs/protocol.md, 10)";
  return "abs(y - sum of x) <= N * 2^(E-s-1) + 2^-24 * abs(y)\n"
         "N = " +
         std::to_string(world) + " ranks, s = " + std::to_string(bound_shift(world, bits)) +
         ", 2^E = the power of two at or above the largest abs(x) of the packet (docs/protocol.md, 10)";
}

float tensor_scale(std::uint64_t seed, std::uint64_t tensor) noexcept {
  const std::uint64_t word = mix64(mix64(seed) + tensor);
  const float mantissa = 1.0F + static_cast<float>(word >> 48) * 0x1p-16F;
  return std::ldexp(mantissa, -47 + static_cast<int>(word % 13));
}

void fill(std::span<float> out, const ValueStream& stream, std::uint64_t first, float scale) noexcept {
  stream.each(first, out.size(),
              [&](std::size_t k, std::int32_t value) { out[k] = float_value(value, scale); });
}

void fill(std::span<std::int32_t> out, const ValueStream& stream, std::uint64_t first,
          float /*scale*/) noexcept {
  stream.each(first, out.size(), [&](std::size_t k, std::int32_t value) { out[k] = int_value(value); });
}

}  // namespace tally::perf
