#include "chunk_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "block_exponent.h"

namespace tally {
namespace {

const float* floats(const Segment& segment, std::uint64_t offset) noexcept {
  return static_cast<const float*>(segment.in) + offset;
}

}  // namespace

std::uint32_t max_abs_bits(const EngineOperation& operation, ElementRange range,
                           const Kernels& kernels) noexcept {
  std::uint32_t bits = 0;
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    bits = std::max(bits, kernels.max_abs_bits(floats(segment, offset), n));
  });
  return bits;
}

std::optional<BadElement> find_bad_element(const EngineOperation& operation, ElementRange range) noexcept {
  std::optional<BadElement> found;
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n && !found; ++i) {
      const float value = floats(segment, offset)[i];
      if ((std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) > kGreatestMagnitude)
        found = BadElement{segment.start + offset + i, value};
    }
  });
  return found;
}

Packed encode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                    std::span<std::byte> wire, const Kernels& kernels) noexcept {
  const bool quantised = operation.dtype() == Dtype::kFloat32;
  const float scale = quantised ? quantise_scale(shift, exponent) : 0.0F;
  const std::int32_t limit = std::int32_t{1} << shift;
  Packed all;
  std::uint32_t done = 0;
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    std::byte* const at = wire.data() + std::size_t{4} * done;
    const Packed part = quantised
                            ? kernels.quantise(floats(segment, offset), at, n, scale, limit)
                            : kernels.pack(static_cast<const std::int32_t*>(segment.in) + offset, at, n);
    all.sums = joined_sums(all.sums, done, part.sums);
    all.magnitude = std::max(all.magnitude, part.magnitude);
    done += n;
  });
  std::memset(wire.data() + std::size_t{4} * done, 0, wire.size() - std::size_t{4} * done);
  return all;
}

void decode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                  std::span<const std::byte> wire, const Kernels& kernels) noexcept {
  const bool quantised = operation.dtype() == Dtype::kFloat32;
  const float scale = quantised ? dequantise_scale(shift, exponent) : 0.0F;
  const std::byte* at = wire.data();
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    if (quantised)
      kernels.dequantise(at, static_cast<float*>(segment.out) + offset, n, scale);
    else
      kernels.unpack(at, static_cast<std::int32_t*>(segment.out) + offset, n);
    at += std::size_t{4} * n;
  });
}

}  // namespace tally
