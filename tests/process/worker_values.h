#pragma once
// Values that every process can make for every rank, so that each checks all sums by itself. They are chosen
// so that float32 sums are exact too: up to 64 ranks, a right sum has one bit pattern.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tally/mix64.h"

namespace tally::test {

// Which values: element i of rank r is a pure function of (seed, iteration, r, i).
struct Values {
  std::uint64_t seed = 0;
  std::uint32_t iteration = 0;

  [[nodiscard]] std::int16_t word(std::uint32_t rank, std::uint64_t i) const noexcept {
    const std::uint64_t key = mix64(mix64(seed + 1) + iteration) + rank;
    return static_cast<std::int16_t>(mix64(mix64(key) + i) >> 48);
  }
};

// 26 bits: 32 of them stay inside int32.
constexpr std::int32_t value_of(std::int16_t word, std::uint64_t, std::int32_t) noexcept {
  return std::int32_t{word} * 1021;
}

// 16 significant bits, of a size that changes every 100 elements: blocks get different exponents, and within
// a block of 352 the smallest keeps 11 bits below what quantisation drops.
constexpr float value_of(std::int16_t word, std::uint64_t i, float) noexcept {
  constexpr std::array kScales{0x1p-10F, 0x1p-13F, 0x1p-7F, 0x1p-12F, 0x1p-9F};
  return static_cast<float>(word) * kScales[(i / 100) % kScales.size()];
}

template <class T>
void fill(std::span<T> out, std::uint64_t first, const Values& values, std::uint32_t rank) noexcept {
  for (std::size_t k = 0; k < out.size(); ++k)
    out[k] = value_of(values.word(rank, first + k), first + k, T{});
}

// Elements whose bits are not those of the sum over `world` ranks.
template <class T>
std::uint64_t count_wrong(std::span<const T> sums, std::uint64_t first, const Values& values,
                          std::uint32_t world) noexcept {
  std::uint64_t wrong = 0;
  for (std::size_t k = 0; k < sums.size(); ++k) {
    double expected = 0;  // exact: 26 bits and 6 more
    for (std::uint32_t rank = 0; rank < world; ++rank)
      expected += static_cast<double>(value_of(values.word(rank, first + k), first + k, T{}));
    wrong += std::bit_cast<std::uint32_t>(sums[k]) != std::bit_cast<std::uint32_t>(static_cast<T>(expected))
                 ? 1
                 : 0;
  }
  return wrong;
}

// CRC32C (Castagnoli) of what came before and `bytes`; 0 to begin with.
inline std::uint32_t crc32c(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
  static constexpr auto kTable = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t n = 0; n < table.size(); ++n) {
      std::uint32_t c = n;
      for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) != 0 ? 0x82F63B78U : 0U);
      table[n] = c;
    }
    return table;
  }();
  crc = ~crc;
  for (const std::byte b : bytes) crc = kTable[(crc ^ static_cast<std::uint8_t>(b)) & 0xFF] ^ (crc >> 8);
  return ~crc;
}

}  // namespace tally::test
