#pragma once
// Values that every process can make for every rank, so that each rank checks sums by itself: element i of
// rank r in iteration t is a pure function of (seed, t, r, i).

#include <cstddef>
#include <cstdint>
#include <span>

#include "tally/mix64.h"

namespace tally {

class ValueStream {
 public:
  ValueStream(std::uint64_t seed, std::uint64_t iteration, std::uint32_t rank) noexcept
      : key_(mix64(mix64(seed ^ kSeedSalt) + iteration) ^ mix64(rank + kRankSalt)) {}

  // -2^30..2^30; the product of two 16-bit numbers: most are small and a few are large, like gradients.
  [[nodiscard]] std::int32_t at(std::uint64_t i) const noexcept {
    const std::uint64_t word = word_of(i);
    return (i & 1) == 0 ? low(word) : high(word);
  }

  // use(k, at(first + k)) for k < n; one hash makes two values.
  template <class Use>
  void each(std::uint64_t first, std::size_t n, Use&& use) const noexcept {
    std::size_t k = 0;
    if ((first & 1) != 0 && n > 0) use(k++, at(first));
    for (; k + 1 < n; k += 2) {
      const std::uint64_t word = word_of(first + k);
      use(k, low(word));
      use(k + 1, high(word));
    }
    if (k < n) use(k, at(first + k));
  }

 private:
  static constexpr std::uint64_t kSeedSalt = 0x9e3779b97f4a7c15ULL;
  static constexpr std::uint64_t kRankSalt = 0xd1b54a32d192ed03ULL;

  [[nodiscard]] std::uint64_t word_of(std::uint64_t i) const noexcept {
    return mix64(key_ + (i >> 1) * kSeedSalt);
  }
  static std::int32_t product(std::uint64_t a, std::uint64_t b) noexcept {
    return std::int32_t{static_cast<std::int16_t>(a)} * static_cast<std::int16_t>(b);
  }
  static std::int32_t low(std::uint64_t word) noexcept { return product(word, word >> 16); }
  static std::int32_t high(std::uint64_t word) noexcept { return product(word >> 32, word >> 48); }

  std::uint64_t key_;
};

// The float32 of a stream's value. `scale`: of the tensor.
constexpr float float_value(std::int32_t value, float scale) noexcept {
  return static_cast<float>(value) * scale;
}
// The int32 of a stream's value: sums of 64 ranks stay inside int32.
constexpr std::int32_t int_value(std::int32_t value) noexcept { return value >> 6; }

// Tensors of a model have gradients of different size: 2^-47 to 2^-34, so that the largest value of a tensor
// is 2^-17 to 2^-4.
[[nodiscard]] float tensor_scale(std::uint64_t seed, std::uint64_t tensor) noexcept;

void fill(std::span<float> out, const ValueStream& stream, std::uint64_t first, float scale) noexcept;
void fill(std::span<std::int32_t> out, const ValueStream& stream, std::uint64_t first) noexcept;

}  // namespace tally
