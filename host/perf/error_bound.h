#pragma once
// The error bound of docs/protocol.md, 10, written from its text and not from the engine's code, so that the
// one checks the other:
//
//   abs(y - sum of x) <= N * 2^(E-s-1) + 2^-24 * abs(y)

#include <cstdint>
#include <string>

namespace tally {

// s = floor(log2(floor((2^31 - 1)/N))). world: 1..64.
[[nodiscard]] int bound_shift(std::uint32_t world) noexcept;

// E of a packet's values: the smallest integer with 2^E >= largest, not below -96. largest: of abs(x) over
// all ranks, finite, > 0.
[[nodiscard]] int bound_exponent(double largest) noexcept;

// N * 2^(E-s-1); 0 when all values are 0, for then the sum is exactly 0.
[[nodiscard]] double rounding_bound(std::uint32_t world, double largest) noexcept;

inline constexpr double kFloatHalfUnit = 0x1p-24;

// The formula with its words, for people; two lines.
[[nodiscard]] std::string bound_text(std::uint32_t world);

}  // namespace tally
