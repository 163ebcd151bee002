#include "engine/chunk_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/exact_sum.h"
#include "tally/wire.h"

namespace tally::engine {
namespace {

const float* floats(const Segment& segment, std::uint64_t offset) noexcept {
  return static_cast<const float*>(segment.in) + offset;
}

using Quantise = decltype(kernels::Kernels::quantise);

// What is beyond the range of int32 has no rounding that keeps its sign, so that it is clipped before. A NaN
// has no sign to keep.
kernels::Packed quantise_clipped(Quantise quantise, std::uint32_t value_bytes, const float* in,
                                 std::byte* wire, std::uint32_t n, float scale, float most,
                                 std::int32_t limit) noexcept {
  std::array<float, 256> block{};
  kernels::Packed all;
  for (std::uint32_t done = 0; done < n;) {
    const auto count = std::min<std::uint32_t>(block.size(), n - done);
    for (std::uint32_t i = 0; i < count; ++i)
      block.at(i) = std::isnan(in[done + i]) ? 0.0F : std::clamp(in[done + i], -most, most);
    const kernels::Packed part =
        quantise(block.data(), wire + std::size_t{value_bytes} * done, count, scale, limit);
    all.sums = kernels::joined_sums(all.sums, done, part.sums);
    all.magnitude = std::max(all.magnitude, part.magnitude);
    done += count;
  }
  return all;
}

// Twelve words for each value.
using DigitsOfPacket = std::array<std::int32_t, kMaxElements>;

kernels::Packed encode_exact(const EngineOperation& operation, ElementRange range, std::span<std::byte> wire,
                             const kernels::Kernels& kernels) noexcept {
  DigitsOfPacket digits;
  std::int32_t* at = digits.data();
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i, at += kDigits)
      to_digits(floats(segment, offset)[i], Digits(at, kDigits));
  });
  const auto words = static_cast<std::uint32_t>(wire.size() / sizeof(std::int32_t));
  std::fill(at, digits.data() + words, 0);
  return kernels.pack(digits.data(), wire.data(), words);
}

bool decode_exact(const EngineOperation& operation, ElementRange range, std::span<const std::byte> wire,
                  const kernels::Kernels& kernels, std::uint32_t contributors) noexcept {
  DigitsOfPacket digits;
  kernels.unpack(wire.data(), digits.data(), range.count * kDigits);
  const std::int32_t* at = digits.data();
  bool all = true;
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    float* const out = static_cast<float*>(segment.out) + offset;
    for (std::uint32_t i = 0; i < n; ++i, at += kDigits) {
      const auto sum = from_digits(DigitSums(at, kDigits));
      all = all && sum;
      out[i] = sum.value_or(std::numeric_limits<float>::quiet_NaN());
      if (operation.options().mean) out[i] /= static_cast<float>(contributors);
    }
  });
  return all;
}

constexpr std::uint64_t kFetchAhead = 2;
constexpr std::uint64_t kMostFetched = 512;  // values; in longer chunks the CPU's own prefetchers keep up
constexpr std::uint64_t kValuesOfLine = 16;

}  // namespace

void fetch_ahead(const EngineOperation& operation, std::uint64_t data_chunk) noexcept {
  if (operation.range(data_chunk).count > kMostFetched) return;
  const std::uint64_t next = operation.start_of(data_chunk + kFetchAhead);
  if (next >= operation.stats.elements) return;
  const auto place = operation.place_of(next);
  const Segment& segment = operation.segment(place.span);
  const std::uint64_t n =
      std::min<std::uint64_t>(segment.length - place.offset, operation.range(data_chunk).count);
  for (std::uint64_t i = 0; i < n; i += kValuesOfLine) __builtin_prefetch(floats(segment, place.offset + i));
}

std::uint32_t max_abs_bits(const EngineOperation& operation, ElementRange range,
                           const kernels::Kernels& kernels) noexcept {
  std::uint32_t bits = 0;
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    bits = std::max(bits, kernels.max_abs_bits(floats(segment, offset), n));
  });
  return bits;
}

std::optional<BadElement> find_bad_element(const EngineOperation& operation, ElementRange range) noexcept {
  std::optional<BadElement> found;
  const std::uint32_t most = operation.exact() ? kGreatestFinite : kGreatestMagnitude;
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n && !found; ++i) {
      const float value = floats(segment, offset)[i];
      if ((std::bit_cast<std::uint32_t>(value) & 0x7fffffffU) > most)
        found = BadElement{segment.start + offset + i, value};
    }
  });
  return found;
}

kernels::Packed encode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                             std::span<std::byte> wire, const kernels::Kernels& kernels, bool late) noexcept {
  if (operation.exact()) return encode_exact(operation, range, wire, kernels);
  const bool quantised = operation.quantised();
  if (quantised && (exponent == kZeroBlock || exponent == kNotANumber)) return {};
  const std::uint32_t value_bytes = 4 / operation.values_of_word();
  const Quantise quantise = value_bytes == 2 ? kernels.halves.quantise : kernels.quantise;
  const float scale = quantised ? quantise_scale(shift, exponent) : 0.0F;
  const float most = late ? power_of_two(exponent) : 0.0F;
  const std::int32_t limit = std::int32_t{1} << shift;
  kernels::Packed all;
  std::uint32_t done = 0;
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    std::byte* const at = wire.data() + std::size_t{value_bytes} * done;
    const kernels::Packed part =
        quantised && late
            ? quantise_clipped(quantise, value_bytes, floats(segment, offset), at, n, scale, most, limit)
        : quantised ? quantise(floats(segment, offset), at, n, scale, limit)
                    : kernels.pack(static_cast<const std::int32_t*>(segment.in) + offset, at, n);
    all.sums = kernels::joined_sums(all.sums, done, part.sums);
    all.magnitude = std::max(all.magnitude, part.magnitude);
    done += n;
  });
  if (const std::size_t bytes = std::size_t{value_bytes} * done; bytes != wire.size())
    std::memset(wire.data() + bytes, 0, wire.size() - bytes);
  return all;
}

bool decode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                  std::span<const std::byte> wire, const kernels::Kernels& kernels,
                  std::uint32_t contributors) noexcept {
  if (operation.exact() && !wire.empty()) return decode_exact(operation, range, wire, kernels, contributors);
  const bool quantised = operation.quantised();
  const std::uint32_t value_bytes = 4 / operation.values_of_word();
  const bool no_number = quantised && exponent == kNotANumber;
  const float scale = quantised && !no_number ? dequantise_scale(shift, exponent) : 0.0F;
  const auto dequantise = value_bytes == 2 ? kernels.halves.dequantise : kernels.dequantise;
  const std::byte* at = wire.data();
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    float* const out = static_cast<float*>(segment.out) + offset;
    if (no_number) {
      std::fill_n(out, n, std::numeric_limits<float>::quiet_NaN());
      return;
    }
    if (wire.empty()) {
      std::memset(out, 0, std::size_t{4} * n);  // of either type
      return;
    }
    if (quantised)
      dequantise(at, out, n, scale);
    else
      kernels.unpack(at, static_cast<std::int32_t*>(segment.out) + offset, n);
    if (operation.options().mean)
      for (std::uint32_t i = 0; i < n; ++i) out[i] /= static_cast<float>(contributors);
    at += std::size_t{value_bytes} * n;
  });
  return !no_number;
}

}  // namespace tally::engine
