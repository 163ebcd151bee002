#pragma once
// A float32 as a sum that int32 additions make exactly: twelve digits of 24 bits, digit i in units of
// 2^(24 i - 149). A value touches two of them; the sums of 64 stay below 2^30. The whole range of float32
// fits (277 bits of 288), so that the sum is exact, and is rounded once (docs/protocol.md, 10).

#include <cstdint>
#include <optional>
#include <span>

#include "tally/wire.h"

namespace tally::engine {

inline constexpr std::uint32_t kDigits = 12;
inline constexpr std::uint32_t kMostExact = 64;  // workers, whose digits stay numbers
using Digits = std::span<std::int32_t, kDigits>;
using DigitSums = std::span<const std::int32_t, kDigits>;

// NaN and Inf are `kNoNumber` in the last digit, of which 64 numbers use less than 2^20 either way.
inline constexpr std::int32_t kNoNumber = std::int32_t{1} << 24;

// Floats of which the digits fit in a packet of `words` values, 16 at least.
constexpr std::uint32_t exact_per_packet(std::uint32_t words) noexcept { return words / kDigits; }

void to_digits(float value, Digits digits) noexcept;

// Sums of the digits of at most 64 values: the float32 nearest to the sum of the values, ties to even, Inf
// beyond the largest, +0 for 0; nothing if one of them was no number.
[[nodiscard]] std::optional<float> from_digits(DigitSums sums) noexcept;

}  // namespace tally::engine
