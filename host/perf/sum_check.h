#pragma once
// Whether sums that came back are right: int32 exactly, float32 within the protocol's bound of the float64
// sum of what all ranks contributed.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tally/mix64.h"

namespace tally::perf {

struct SumCheckOptions {
  std::uint64_t seed = 0;
  std::uint64_t iteration = 0;
  std::uint32_t world = 1;     // 1..4096
  std::uint16_t elements = 0;  // most values of 4 bytes in a packet: 16..2224
  std::uint32_t valued = 64;   // ranks from this one on have zeros
  int bits = 32;  // of the integers that stand for a float: 32; 16, of which twice as many are a block; 384
};

struct SumCheckResult {
  std::uint64_t wrong = 0;        // elements
  std::uint64_t first_wrong = 0;  // index in the tensor; only if wrong > 0
  double got = 0;                 // there
  double expected = 0;            // there, the float64 sum
  double largest_error = 0;       // float32: largest error in parts of its bound; <= 1 unless wrong

  void add(const SumCheckResult& other) noexcept;  // keeps the first wrong one of the first that has any
};

// sums: of one whole operation, whose elements are first, first + 1, ... of the streams. Here and below,
// scale: of the tensor; integers have none.
[[nodiscard]] SumCheckResult check_sums(std::span<const float> sums, std::uint64_t first, float scale,
                                        const SumCheckOptions& options) noexcept;
[[nodiscard]] SumCheckResult check_sums(std::span<const std::int32_t> sums, std::uint64_t first, float,
                                        const SumCheckOptions& options) noexcept;

// The error bound of docs/protocol.md, 10, written from its text and not from the engine's code, so that the
// one checks the other:
//
//   abs(y - sum of x) <= N * 2^(E-s-1) + 2^-24 * abs(y)

// and of exact sums (384 bits) the second part alone.

// s = floor(log2(floor((2^(bits - 1) - 1)/N))). world: 1..4096; bits: 32 or 16.
[[nodiscard]] int bound_shift(std::uint32_t world, int bits = 32) noexcept;

// E of a packet's values: the smallest integer with 2^E >= largest, not below -96. largest: of abs(x) over
// all ranks, finite, > 0.
[[nodiscard]] int bound_exponent(double largest) noexcept;

// N * 2^(E-s-1); 0 when all values are 0, for then the sum is exactly 0. Of exact sums what float64 may be off.
[[nodiscard]] double rounding_bound(std::uint32_t world, double largest, int bits = 32) noexcept;

inline constexpr double kFloatHalfUnit = 0x1p-24;

// The formula with its words, for people; two lines.
[[nodiscard]] std::string bound_text(std::uint32_t world, int bits = 32);

// Values that every process can make for every rank, so that each rank checks sums by itself: element i of
// rank r in iteration t is a pure function of (seed, t, r, i).

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
// The int32 of a stream's value: sums of 64 ranks stay inside int32, those of more are modulo 2^32.
constexpr std::int32_t int_value(std::int32_t value) noexcept { return value >> 6; }

// Tensors of a model have gradients of different size: 2^-47 to 2^-34, so that the largest value of a tensor
// is 2^-17 to 2^-4.
[[nodiscard]] float tensor_scale(std::uint64_t seed, std::uint64_t tensor) noexcept;

void fill(std::span<float> out, const ValueStream& stream, std::uint64_t first, float scale) noexcept;
void fill(std::span<std::int32_t> out, const ValueStream& stream, std::uint64_t first, float = 1) noexcept;

}  // namespace tally::perf
