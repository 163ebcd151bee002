#include "engine/exact_sum.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace tally::engine {
namespace {

constexpr int kDigitBits = 24;
constexpr std::int64_t kDigitMask = (std::int64_t{1} << kDigitBits) - 1;
constexpr int kLeastExponent = -149;  // of the unit of digit 0
constexpr int kMantissaBits = 24;

// A magnitude without sign, digits 0..2^24 - 1, the least first.
using Magnitude = std::array<std::int64_t, kDigits>;

// The bits first..first + count - 1 of it, count <= 24.
std::int64_t bits_of(const Magnitude& m, int first, int count) noexcept {
  const auto digit = static_cast<std::size_t>(first / kDigitBits);
  const std::int64_t above = digit + 1 < m.size() ? m.at(digit + 1) : 0;
  const std::int64_t both = m.at(digit) | above << kDigitBits;
  return both >> (first % kDigitBits) & ((std::int64_t{1} << count) - 1);
}

bool any_below(const Magnitude& m, int bit) noexcept {
  const int digit = bit / kDigitBits;
  const bool whole = std::any_of(m.begin(), m.begin() + digit, [](std::int64_t d) { return d != 0; });
  return whole || bits_of(m, digit * kDigitBits, bit % kDigitBits) != 0;
}

// m * 2^-149, rounded.
float rounded(const Magnitude& m) noexcept {
  const auto top = std::find_if(m.rbegin(), m.rend(), [](std::int64_t d) { return d != 0; });
  if (top == m.rend()) return 0;
  const int digit = static_cast<int>(m.rend() - top) - 1;
  const int bits = digit * kDigitBits + static_cast<int>(std::bit_width(static_cast<std::uint64_t>(*top)));
  const int cut = std::max(bits - kMantissaBits, 0);  // what lies below is no part of the mantissa
  std::int64_t mantissa = bits_of(m, cut, kMantissaBits);
  if (cut > 0 && bits_of(m, cut - 1, 1) != 0 && (any_below(m, cut - 1) || (mantissa & 1) != 0)) ++mantissa;
  return std::ldexp(static_cast<float>(mantissa), cut + kLeastExponent);
}

}  // namespace

void to_digits(float value, Digits digits) noexcept {
  std::fill(digits.begin(), digits.end(), 0);
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t exponent = bits >> 23 & 0xffU;
  if (exponent == 0xff) {
    digits[kDigits - 1] = kNoNumber;
    return;
  }
  const std::uint32_t fraction = bits & 0x7fffffU;
  const std::uint64_t mantissa = exponent == 0 ? fraction : fraction | 0x800000U;
  const std::uint32_t shift = exponent == 0 ? 0 : exponent - 1;
  const std::uint64_t placed = mantissa << (shift % kDigitBits);
  const std::int32_t sign = (bits >> 31) != 0 ? -1 : 1;
  // The greatest shift is 253: digits 10 and 11.
  digits[shift / kDigitBits] = sign * static_cast<std::int32_t>(placed & kDigitMask);
  digits[shift / kDigitBits + 1] = sign * static_cast<std::int32_t>(placed >> kDigitBits);
}

std::optional<float> from_digits(DigitSums sums) noexcept {
  if (std::abs(std::int64_t{sums.back()}) >= kNoNumber / 2) return std::nullopt;
  Magnitude m{};
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < m.size(); ++i) {
    carry += sums[i];
    m.at(i) = carry & kDigitMask;
    carry >>= kDigitBits;
  }
  const bool negative = carry < 0;  // else 0: the last digit has bits to spare
  if (negative) {
    carry = 1;
    for (std::int64_t& digit : m) {
      carry += ~digit & kDigitMask;
      digit = carry & kDigitMask;
      carry >>= kDigitBits;
    }
  }
  return negative ? -rounded(m) : rounded(m);
}

}  // namespace tally::engine
