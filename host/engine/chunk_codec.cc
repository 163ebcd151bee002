#include "engine/chunk_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/exact_sum.h"
#include "engine/sparse_rows.h"
#include "tally/wire.h"

namespace tally::engine {
namespace {

const kernels::ShortFloatKernels& short_floats(ElementType type, const kernels::Kernels& kernels) noexcept {
  return type == ElementType::kFloat16 ? kernels.float16 : kernels.bfloat16;
}

// Floats of 16 bits that are converted at a time: they stay in L1 until they are used.
constexpr std::uint32_t kConverted = 256;
using Converted = std::array<float, kConverted>;

// Calls take(floats, n) for the inputs of the range, in order; nullptr stands for n zeros.
template <class Take>
void for_each_input(const EngineOperation& operation, ElementRange range, const kernels::Kernels& kernels,
                    Take take) noexcept {
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    if (segment.in == nullptr) return take(static_cast<const float*>(nullptr), n);
    if (operation.type() == ElementType::kFloat32)
      return take(static_cast<const float*>(segment.in) + offset, n);
    const auto* const from = static_cast<const std::uint16_t*>(segment.in) + offset;
    Converted floats;
    for (std::uint32_t done = 0; done < n;) {
      const std::uint32_t count = std::min(kConverted, n - done);
      short_floats(operation.type(), kernels).widen(from + done, floats.data(), count);
      take(floats.data(), count);
      done += count;
    }
  });
}

// Calls give(values, n) for all of the range, for who collects rows of the sum.
template <class T, class Give>
void give_rows(const EngineOperation& operation, ElementRange range, Give give) {
  std::array<T, kConverted> values;
  for (std::uint32_t done = 0; done < range.count;) {
    const std::uint32_t count = std::min(kConverted, range.count - done);
    give(values.data(), count);
    operation.options().rows->take(range.first + done, values.data(), count);
    done += count;
  }
}

// Calls give(floats, n) for the outputs of the range, in order; nullptr: nobody wants those n.
template <class Give>
void for_each_output(const EngineOperation& operation, ElementRange range, const kernels::Kernels& kernels,
                     Give give) noexcept {
  if (operation.options().rows != nullptr) return give_rows<float>(operation, range, give);
  operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
    if (segment.out == nullptr) return give(static_cast<float*>(nullptr), n);
    if (operation.type() == ElementType::kFloat32) return give(static_cast<float*>(segment.out) + offset, n);
    auto* const to = static_cast<std::uint16_t*>(segment.out) + offset;
    Converted floats;
    for (std::uint32_t done = 0; done < n;) {
      const std::uint32_t count = std::min(kConverted, n - done);
      give(floats.data(), count);
      short_floats(operation.type(), kernels).narrow(floats.data(), to + done, count);
      done += count;
    }
  });
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
  for_each_input(operation, range, kernels, [&](const float* in, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i, at += kDigits)
      to_digits(in != nullptr ? in[i] : 0.0F, Digits(at, kDigits));
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
  for_each_output(operation, range, kernels, [&](float* out, std::uint32_t n) {
    for (std::uint32_t i = 0; i < n; ++i, at += kDigits) {
      const auto sum = from_digits(DigitSums(at, kDigits));
      all = all && sum;
      if (out == nullptr) continue;
      out[i] = sum.value_or(std::numeric_limits<float>::quiet_NaN());
      if (operation.options().mean) out[i] /= static_cast<float>(contributors);
    }
  });
  return all;
}

constexpr std::uint64_t kFetchAhead = 2;
constexpr std::uint64_t kMostFetched = 512;  // values; in longer chunks the CPU's own prefetchers keep up
constexpr std::size_t kLine = 64;

}  // namespace

void fetch_ahead(const EngineOperation& operation, std::uint64_t data_chunk) noexcept {
  if (operation.range(data_chunk).count > kMostFetched) return;
  const std::uint64_t next = operation.start_of(data_chunk + kFetchAhead);
  if (next >= operation.stats.elements) return;
  const auto place = operation.place_of(next);
  const Segment& segment = operation.segment(place.span);
  if (segment.in == nullptr) return;
  const std::uint64_t n =
      std::min<std::uint64_t>(segment.length - place.offset, operation.range(data_chunk).count);
  const std::size_t each = bytes_of(operation.type());
  const auto* const from = static_cast<const std::byte*>(segment.in) + place.offset * each;
  for (std::uint64_t i = 0; i < n * each; i += kLine) __builtin_prefetch(from + i);
}

std::uint32_t max_abs_bits(const EngineOperation& operation, ElementRange range,
                           const kernels::Kernels& kernels) noexcept {
  std::uint32_t bits = 0;
  for_each_input(operation, range, kernels, [&](const float* in, std::uint32_t n) {
    if (in != nullptr) bits = std::max(bits, kernels.max_abs_bits(in, n));
  });
  return bits;
}

std::optional<BadElement> find_bad_element(const EngineOperation& operation, ElementRange range,
                                           const kernels::Kernels& kernels) noexcept {
  std::optional<BadElement> found;
  std::uint64_t element = range.first;
  const std::uint32_t most = operation.exact() ? kGreatestFinite : kGreatestMagnitude;
  for_each_input(operation, range, kernels, [&](const float* in, std::uint32_t n) {
    for (std::uint32_t i = 0; in != nullptr && i < n && !found; ++i)
      if ((std::bit_cast<std::uint32_t>(in[i]) & 0x7fffffffU) > most) found = BadElement{element + i, in[i]};
    element += n;
  });
  return found;
}

kernels::Packed encode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                             std::span<std::byte> wire, const kernels::Kernels& kernels, bool late) noexcept {
  if (operation.exact()) return encode_exact(operation, range, wire, kernels);
  const bool quantised = operation.quantised();
  if (quantised && (exponent == kZeroBlock || exponent == kNotANumber)) return {};
  const std::uint32_t value_bytes = 4 / operation.values_of_word();
  kernels::Packed all;
  std::uint32_t done = 0;
  // pack(wire) of `n` values; of zeros nothing counts.
  const auto append = [&](const void* in, std::uint32_t n, auto pack) {
    std::byte* const at = wire.data() + std::size_t{value_bytes} * done;
    if (in == nullptr) {
      std::memset(at, 0, std::size_t{value_bytes} * n);
    } else {
      const kernels::Packed part = pack(at);
      all.sums = kernels::joined_sums(all.sums, done, part.sums);
      all.magnitude = std::max(all.magnitude, part.magnitude);
    }
    done += n;
  };
  if (quantised) {
    const Quantise quantise = value_bytes == 2 ? kernels.halves.quantise : kernels.quantise;
    const float scale = quantise_scale(shift, exponent);
    const float most = late ? power_of_two(exponent) : 0.0F;
    const std::int32_t limit = std::int32_t{1} << shift;
    for_each_input(operation, range, kernels, [&](const float* in, std::uint32_t n) {
      append(in, n, [&](std::byte* at) {
        return late ? quantise_clipped(quantise, value_bytes, in, at, n, scale, most, limit)
                    : quantise(in, at, n, scale, limit);
      });
    });
  } else {
    operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
      append(segment.in, n, [&](std::byte* at) {
        return kernels.pack(static_cast<const std::int32_t*>(segment.in) + offset, at, n);
      });
    });
  }
  if (const std::size_t bytes = std::size_t{value_bytes} * done; bytes != wire.size())
    std::memset(wire.data() + bytes, 0, wire.size() - bytes);
  return all;
}

bool decode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                  std::span<const std::byte> wire, const kernels::Kernels& kernels,
                  std::uint32_t contributors) noexcept {
  if (operation.exact() && !wire.empty()) return decode_exact(operation, range, wire, kernels, contributors);
  const std::byte* at = wire.data();
  const bool zeros = wire.empty() && !(operation.quantised() && exponent == kNotANumber);
  if (zeros && operation.options().rows != nullptr) return true;
  if (!is_float(operation.type())) {
    if (operation.options().rows != nullptr) {
      give_rows<std::int32_t>(operation, range, [&](std::int32_t* out, std::uint32_t n) {
        kernels.unpack(at, out, n);
        at += std::size_t{4} * n;
      });
      return true;
    }
    operation.for_each_piece(range, [&](const Segment& segment, std::uint64_t offset, std::uint32_t n) {
      auto* const out = segment.out != nullptr ? static_cast<std::int32_t*>(segment.out) + offset : nullptr;
      if (segment.out != nullptr && wire.empty()) std::fill_n(out, n, 0);
      if (wire.empty()) return;
      if (segment.out != nullptr) kernels.unpack(at, out, n);
      at += std::size_t{4} * n;
    });
    return true;
  }
  const bool no_number = operation.quantised() && exponent == kNotANumber;
  const std::uint32_t value_bytes = 4 / operation.values_of_word();
  const float scale = operation.quantised() && !no_number ? dequantise_scale(shift, exponent) : 0.0F;
  const auto dequantise = value_bytes == 2 ? kernels.halves.dequantise : kernels.dequantise;
  for_each_output(operation, range, kernels, [&](float* out, std::uint32_t n) {
    if (no_number || wire.empty()) {
      if (out != nullptr) std::fill_n(out, n, no_number ? std::numeric_limits<float>::quiet_NaN() : 0.0F);
      return;
    }
    if (out != nullptr) {
      dequantise(at, out, n, scale);
      if (operation.options().mean)
        for (std::uint32_t i = 0; i < n; ++i) out[i] /= static_cast<float>(contributors);
    }
    at += std::size_t{value_bytes} * n;
  });
  return !no_number;
}

}  // namespace tally::engine
