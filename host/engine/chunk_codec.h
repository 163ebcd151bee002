#pragma once
// Values of one data chunk between the caller's spans and the wire. Pieces of several spans are joined; the
// last chunk of an operation is zero-padded to its wire length. Encoding the same input gives the same bits,
// which is what allows a contribution to be made again instead of being kept.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine/engine_operation.h"
#include "kernels/kernels.h"
#include "tally/float_options.h"

namespace tally::engine {

// Has the CPU fetch what is read for the first time soon, kFetchAhead data chunks behind this one: its own
// prefetchers stop at the end of a page.
void fetch_ahead(const EngineOperation& operation, std::uint64_t data_chunk) noexcept;

// Largest bit pattern of |x| of the elements.
[[nodiscard]] std::uint32_t max_abs_bits(const EngineOperation& operation, ElementRange range,
                                         const kernels::Kernels& kernels) noexcept;

// Element that does not travel as a number: NaN, Inf or, where it has an exponent, a magnitude above 2^126.
struct BadElement {
  std::uint64_t element = 0;  // in the concatenation
  float value = 0;
};
[[nodiscard]] std::optional<BadElement> find_bad_element(const EngineOperation& operation, ElementRange range,
                                                         const kernels::Kernels& kernels) noexcept;

// Writes the elements, then zeros up to the end of `wire` (a multiple of 64 bytes). When the magnitude is 0
// the chunk is zeros, and `wire` may be left as it was.
// `exponent`: E of the data chunk; ignored for int32. Of a block that exceeds it, `late` must be set: its
// values are clipped to +-2^E. `shift`: sum_shift(world, the operation's dtype).
kernels::Packed encode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                             std::span<std::byte> wire, const kernels::Kernels& kernels,
                             bool late = false) noexcept;

// Writes the sums to the output spans; the padding is ignored. An empty `wire` is one of zeros. contributors:
// how many ranks are in them, by which an operation that wants the mean divides. false: some became NaN.
bool decode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                  std::span<const std::byte> wire, const kernels::Kernels& kernels,
                  std::uint32_t contributors = 1) noexcept;

inline constexpr std::uint32_t kGreatestFinite = 0x7f7fffff;  // bits of the greatest float32

// Numbers of the block floating point (docs/protocol.md, 10). A block is one data chunk of one
// rank; its exponent e is the smallest integer with 2^e >= max|x|.

inline constexpr int kZeroBlock = -127;     // all elements are 0
inline constexpr int kLeastExponent = -96;  // keeps 2^(s-e) a normal float32 for every s
inline constexpr int kGreatestExponent = 126;
// A block with more, Inf or NaN is kNotANumber.
inline constexpr std::uint32_t kGreatestMagnitude = std::bit_cast<std::uint32_t>(kMostMagnitude);

// The largest magnitude of a value of which `world` make no sum that leaves the wire's type.
constexpr std::uint32_t summable(std::uint32_t world, Dtype dtype) noexcept {
  return (dtype == Dtype::kInt16 ? 0x7fffU : 0x7fffffffU) / world;
}
// s: the sum of `world` values of magnitude 2^s stays inside the wire's type.
constexpr int sum_shift(std::uint32_t world, Dtype dtype = Dtype::kFloat32) noexcept {
  return static_cast<int>(std::bit_width(summable(world, dtype))) - 1;
}

// From the largest bit pattern of |x| in the block. Denormals clamp like all that is below 2^-96.
constexpr int block_exponent(std::uint32_t max_abs_bits) noexcept {
  if (max_abs_bits == 0) return kZeroBlock;
  if (max_abs_bits > kGreatestMagnitude) return kNotANumber;
  const int floor = static_cast<int>(max_abs_bits >> 23) - 127;
  const int exponent = (max_abs_bits & 0x7fffffU) == 0 ? floor : floor + 1;  // 2^floor itself needs no more
  return exponent < kLeastExponent ? kLeastExponent : exponent;
}

// 2^exponent, exact; -126..127.
constexpr float power_of_two(int exponent) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// Factor from values to integers, and back. A zero block is zeros both ways, and kNotANumber has none.
constexpr float quantise_scale(int shift, int exponent) noexcept {
  return exponent == kZeroBlock ? 0.0F : power_of_two(shift - exponent);
}
constexpr float dequantise_scale(int shift, int exponent) noexcept {
  return exponent == kZeroBlock ? 0.0F : power_of_two(exponent - shift);
}

// What a RESULT may carry: none, a zero block, an exponent in range, or kNotANumber.
constexpr bool valid_exponent(int exponent) noexcept {
  return exponent <= kZeroBlock || exponent >= kLeastExponent;
}

static_assert(sum_shift(1) == 30 && sum_shift(2) == 29 && sum_shift(4) == 28 && sum_shift(8) == 27);
static_assert(sum_shift(64) == 24);
static_assert(sum_shift(1, Dtype::kInt16) == 14 && sum_shift(8, Dtype::kInt16) == 11);
static_assert(sum_shift(64, Dtype::kInt16) == 8);

}  // namespace tally::engine
