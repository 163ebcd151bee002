#include "value_stream.h"

#include <cmath>

namespace tally {

float tensor_scale(std::uint64_t seed, std::uint64_t tensor) noexcept {
  const std::uint64_t word = mix64(mix64(seed) + tensor);
  const float mantissa = 1.0F + static_cast<float>(word >> 48) * 0x1p-16F;
  return std::ldexp(mantissa, -47 + static_cast<int>(word % 13));
}

void fill(std::span<float> out, const ValueStream& stream, std::uint64_t first, float scale) noexcept {
  stream.each(first, out.size(),
              [&](std::size_t k, std::int32_t value) { out[k] = float_value(value, scale); });
}

void fill(std::span<std::int32_t> out, const ValueStream& stream, std::uint64_t first) noexcept {
  stream.each(first, out.size(), [&](std::size_t k, std::int32_t value) { out[k] = int_value(value); });
}

}  // namespace tally
