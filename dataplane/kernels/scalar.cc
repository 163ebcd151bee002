// The reference: one element after the other, no tricks. The other tables are tested to be bit-equal to it.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/kernels.h"
#include "tally/be.h"

namespace tally::kernels {
namespace {

using Element = Be<std::uint32_t>;
constexpr std::uint32_t kRow = 16;  // words

std::uint32_t element(const std::byte* wire, std::uint32_t i) noexcept {
  return wire_at<Element>(wire + i * sizeof(Element)).host();
}

void set_element(std::byte* wire, std::uint32_t i, std::uint32_t value) noexcept {
  wire_put(wire + i * sizeof(Element), Element(value));
}

void take(Sums& sums, std::uint32_t i, std::uint32_t value) noexcept {
  sums.sum1 += value;
  sums.sum2 += (i + 1) * value;
}

std::uint32_t magnitude(std::int32_t value) noexcept {
  const auto bits = static_cast<std::uint32_t>(value);
  return value < 0 ? 0 - bits : bits;
}

void write(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) entry[i] = static_cast<std::int32_t>(element(wire, i));
}

bool add_element(std::int32_t& entry, std::uint32_t value) noexcept {
  return __builtin_add_overflow(entry, static_cast<std::int32_t>(value), &entry);  // stores the wrapped sum
}

bool add(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
  bool overflow = false;
  for (std::uint32_t i = 0; i < n; ++i) overflow |= add_element(entry[i], element(wire, i));
  return overflow;
}

Added add_sums(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
  Added added;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t value = element(wire, i);
    added.overflow |= add_element(entry[i], value);
    take(added.sums, i, value);
  }
  return added;
}

Added add_emit(std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept {
  Added added;
  for (std::uint32_t i = 0; i < n; ++i) {
    added.overflow |= add_element(entry[i], element(wire, i));
    const auto result = static_cast<std::uint32_t>(entry[i]);
    set_element(wire, i, result);
    take(added.sums, i, result);
  }
  return added;
}

void subtract(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i)
    entry[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(entry[i]) - element(wire, i));
}

void read(const std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) set_element(wire, i, static_cast<std::uint32_t>(entry[i]));
}

void swap(std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t value = element(wire, i);
    set_element(wire, i,
                static_cast<std::uint32_t>(std::exchange(entry[i], static_cast<std::int32_t>(value))));
  }
}

Sums sums(const std::byte* wire, std::uint32_t n) noexcept {
  Sums sums;
  for (std::uint32_t i = 0; i < n; ++i) take(sums, i, element(wire, i));
  return sums;
}

// CRC of each byte value alone, in the reflected form of the Castagnoli polynomial 0x1edc6f41.
constexpr std::array<std::uint32_t, 256> kCrcTable = [] {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    table[byte] = crc;
  }
  return table;
}();

std::uint32_t crc32c(const std::byte* data, std::size_t bytes) noexcept {
  std::uint32_t crc = ~0u;
  for (std::size_t i = 0; i < bytes; ++i)
    crc = crc >> 8 ^ kCrcTable[(crc ^ std::to_integer<std::uint32_t>(data[i])) & 0xff];
  return ~crc;
}

std::uint32_t max_abs_bits(const float* in, std::size_t n) noexcept {
  std::uint32_t max = 0;
  for (std::size_t i = 0; i < n; ++i) max = std::max(max, std::bit_cast<std::uint32_t>(in[i]) & 0x7fffffff);
  return max;
}

std::int32_t rounded(float product) noexcept {
  if (product >= 0x1p31f) return std::numeric_limits<std::int32_t>::max();
  if (!(product >= -0x1p31f)) return std::numeric_limits<std::int32_t>::min();  // NaN too
  return static_cast<std::int32_t>(std::nearbyint(product));
}

Sums copy_sums(const std::byte* wire, std::byte* to, std::uint32_t n) noexcept {
  std::copy_n(wire, n * sizeof(Element), to);
  return sums(wire, n);
}

Packed quantise(const float* in, std::byte* wire, std::uint32_t n, float scale, std::int32_t limit) noexcept {
  Packed packed;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::int32_t q = rounded(in[i] * scale);
    const auto clipped = static_cast<std::uint32_t>(std::clamp(q, -limit, limit));
    packed.magnitude = std::max(packed.magnitude, magnitude(q));
    take(packed.sums, i, clipped);
    set_element(wire, i, clipped);
  }
  return packed;
}

void dequantise(const std::byte* wire, float* out, std::uint32_t n, float scale) noexcept {
  for (std::uint32_t i = 0; i < n; ++i)
    out[i] = static_cast<float>(static_cast<std::int32_t>(element(wire, i))) * scale;
}

Packed pack(const std::int32_t* in, std::byte* wire, std::uint32_t n) noexcept {
  Packed packed;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto value = static_cast<std::uint32_t>(in[i]);
    packed.magnitude = std::max(packed.magnitude, magnitude(in[i]));
    take(packed.sums, i, value);
    set_element(wire, i, value);
  }
  return packed;
}

void unpack(const std::byte* wire, std::int32_t* out, std::uint32_t n) noexcept { write(out, wire, n); }

// Two values in a word, the first in its upper half.

using Half = Be<std::uint16_t>;

std::int16_t half(const std::byte* wire, std::uint32_t i) noexcept {
  return static_cast<std::int16_t>(wire_at<Half>(wire + i * sizeof(Half)).host());
}
void set_half(std::byte* wire, std::uint32_t i, std::int32_t value) noexcept {
  wire_put(wire + i * sizeof(Half), Half(static_cast<std::uint16_t>(value)));
}

std::int16_t stored(const std::int32_t* entry, std::uint32_t i) noexcept {
  return static_cast<std::int16_t>(static_cast<std::uint32_t>(entry[i / 2]) >> (i % 2 == 0 ? 16 : 0));
}
void store(std::int32_t* entry, std::uint32_t i, std::int32_t value) noexcept {
  const std::uint32_t shift = i % 2 == 0 ? 16 : 0;
  const std::uint32_t kept = static_cast<std::uint32_t>(entry[i / 2]) & ~(0xFFFFU << shift);
  entry[i / 2] = static_cast<std::int32_t>(
      kept | static_cast<std::uint32_t>(static_cast<std::uint16_t>(value)) << shift);
}
bool add_half(std::int32_t* entry, std::uint32_t i, std::int16_t value) noexcept {
  const std::int32_t sum = stored(entry, i) + value;
  store(entry, i, sum);
  return sum != static_cast<std::int16_t>(sum);
}

Added add_halves(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Ahead) noexcept {
  Added added;
  for (std::uint32_t i = 0; i < n; ++i) {
    added.overflow |= add_half(entry, i, half(wire, i)) ? 1U : 0U;
    take(added.sums, i, static_cast<std::uint32_t>(half(wire, i)));
  }
  return added;
}

Added add_emit_halves(std::int32_t* entry, std::byte* wire, std::uint32_t n, Ahead) noexcept {
  Added added;
  for (std::uint32_t i = 0; i < n; ++i) {
    added.overflow |= add_half(entry, i, half(wire, i)) ? 1U : 0U;
    set_half(wire, i, stored(entry, i));
    take(added.sums, i, static_cast<std::uint32_t>(stored(entry, i)));
  }
  return added;
}

void subtract_halves(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) store(entry, i, stored(entry, i) - half(wire, i));
}

Sums sums_of_halves(const std::byte* wire, std::uint32_t n) noexcept {
  Sums sums;
  for (std::uint32_t i = 0; i < n; ++i) take(sums, i, static_cast<std::uint32_t>(half(wire, i)));
  return sums;
}

Packed quantise_halves(const float* in, std::byte* wire, std::uint32_t n, float scale,
                       std::int32_t limit) noexcept {
  Packed packed;
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::int32_t q = rounded(in[i] * scale);
    const std::int32_t clipped = std::clamp(q, -limit, limit);
    packed.magnitude = std::max(packed.magnitude, magnitude(q));
    take(packed.sums, i, static_cast<std::uint32_t>(clipped));
    set_half(wire, i, clipped);
  }
  return packed;
}

void dequantise_halves(const std::byte* wire, float* out, std::uint32_t n, float scale) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) out[i] = static_cast<float>(half(wire, i)) * scale;
}

Sums copy_sums_of_halves(const std::byte* wire, std::byte* to, std::uint32_t n) noexcept {
  std::copy_n(wire, n * sizeof(Half), to);
  return sums_of_halves(wire, n);
}

// Rows, one after the other by the functions for 16 words of them.
// in: what a row that is there is done with; its place in the block, and its values. out: with one that is not.
template <class In, class Out>
void for_each_row(const SomeRows& rows, In in, Out out) noexcept {
  constexpr std::uint32_t kWord = 64;
  const std::byte* wire = rows.wire;
  for (std::uint32_t row = 0; row < rows.count; ++row) {
    if ((rows.present[row / kWord] >> row % kWord & 1) == 0) {
      out(row);
      continue;
    }
    in(row, wire);
    wire += kRow * sizeof(Element);
  }
}

void write_rows(std::int32_t* entry, const SomeRows& rows) noexcept {
  for_each_row(
      rows, [&](std::uint32_t row, const std::byte* wire) { write(entry + row * kRow, wire, kRow); },
      [&](std::uint32_t row) { std::fill_n(entry + row * kRow, kRow, 0); });
}

// per_word: values in a word.
template <std::uint32_t per_word, Added (*add_row)(std::int32_t*, const std::byte*, std::uint32_t) noexcept>
Added add_rows(std::int32_t* entry, const SomeRows& rows) noexcept {
  Added added;
  for_each_row(
      rows,
      [&](std::uint32_t row, const std::byte* wire) {
        const Added one = add_row(entry + row * kRow, wire, per_word * kRow);
        added.overflow |= one.overflow;
        added.sums = joined_sums(added.sums, row * per_word * kRow, one.sums);
      },
      [](std::uint32_t) {});
  return added;
}

template <std::uint32_t per_word,
          void (*subtract_row)(std::int32_t*, const std::byte*, std::uint32_t) noexcept>
void subtract_rows(std::int32_t* entry, const SomeRows& rows) noexcept {
  for_each_row(
      rows,
      [&](std::uint32_t row, const std::byte* wire) {
        subtract_row(entry + row * kRow, wire, per_word * kRow);
      },
      [](std::uint32_t) {});
}

template <std::uint32_t per_word, Sums (*sums_of_row)(const std::byte*, std::uint32_t) noexcept>
Sums sums_of_rows(const SomeRows& rows) noexcept {
  Sums sums;
  for_each_row(
      rows,
      [&](std::uint32_t row, const std::byte* wire) {
        sums = joined_sums(sums, row * per_word * kRow, sums_of_row(wire, per_word * kRow));
      },
      [](std::uint32_t) {});
  return sums;
}

Added add_row_of_halves(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept {
  return add_halves(entry, wire, n, {});
}

template <std::uint32_t per_word, auto add_row, auto subtract_row, auto sums_of_row>
constexpr RowsKernels kRows = {
    .write = write_rows,
    .add =
        [](auto* entry, const SomeRows& rows) noexcept {
          return add_rows<per_word, add_row>(entry, rows).overflow != 0;
        },
    .add_sums = add_rows<per_word, add_row>,
    .subtract = subtract_rows<per_word, subtract_row>,
    .sums = sums_of_rows<per_word, sums_of_row>,
};

// Denormals of 16 bits are multiples of 2^-24, which a float holds exactly.
void widen_float16(const std::uint16_t* in, float* out, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t sign = static_cast<std::uint32_t>(in[i] & 0x8000U) << 16;
    const std::uint32_t exponent = in[i] >> 10 & 0x1FU;
    const std::uint32_t fraction = in[i] & 0x3FFU;
    std::uint32_t bits = 0;
    if (exponent == 0x1F) {
      bits = 0x7F80'0000U | (fraction != 0 ? 0x40'0000U : 0U) | fraction << 13;
    } else if (exponent == 0) {
      bits = std::bit_cast<std::uint32_t>(static_cast<float>(fraction) * 0x1p-24F);
    } else {
      bits = (exponent + 112) << 23 | fraction << 13;
    }
    out[i] = std::bit_cast<float>(sign | bits);
  }
}

// Rounded by adding: what is below a half of the last place goes, an odd last place takes the half along, and a
// carry out of the fraction makes the next exponent, the last of which is infinity.
std::uint32_t rounded_to_even(std::uint32_t bits, std::uint32_t dropped) noexcept {
  const std::uint32_t odd = bits >> dropped & 1U;
  return (bits + (1U << (dropped - 1)) - 1 + odd) >> dropped;
}

void narrow_float16(const float* in, std::uint16_t* out, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto all = std::bit_cast<std::uint32_t>(in[i]);
    const std::uint32_t bits = all & 0x7FFF'FFFFU;
    std::uint32_t half = 0;
    if (bits > 0x7F80'0000U) {
      half = 0x7E00U | (bits >> 13 & 0x3FFU);
    } else if (bits >= 0x4780'0000U) {  // 2^16
      half = 0x7C00U;
    } else if (bits >= 0x3880'0000U) {  // 2^-14: normal
      half = rounded_to_even(bits - (112U << 23), 13);
    } else {  // the sum's last place is 2^-24, so that the addition rounds
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + 0.5F) - 0x3F00'0000U;
    }
    out[i] = static_cast<std::uint16_t>(all >> 16 & 0x8000U) | static_cast<std::uint16_t>(half);
  }
}

void widen_bfloat16(const std::uint16_t* in, float* out, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(in[i]) << 16;
    const bool no_number = (bits & 0x7FFF'FFFFU) > 0x7F80'0000U;
    out[i] = std::bit_cast<float>(no_number ? bits | 0x40'0000U : bits);
  }
}

void narrow_bfloat16(const float* in, std::uint16_t* out, std::uint32_t n) noexcept {
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    const bool no_number = (bits & 0x7FFF'FFFFU) > 0x7F80'0000U;
    out[i] = static_cast<std::uint16_t>(no_number ? bits >> 16 | 0x40U : rounded_to_even(bits, 16));
  }
}

}  // namespace

constinit const Kernels kScalarKernels = {
    .name = "scalar",
    .write = write,
    .add = add,
    .add_sums = add_sums,
    .add_emit = add_emit,
    .fetching = {
        .write = [](auto* entry, auto* wire, auto n, Ahead) noexcept { write(entry, wire, n); },
        .add = [](auto* entry, auto* wire, auto n, Ahead) noexcept { return add(entry, wire, n); },
        .add_sums = [](auto* entry, auto* wire, auto n, Ahead) noexcept { return add_sums(entry, wire, n); },
        .add_emit = [](auto* entry, auto* wire, auto n, Ahead) noexcept { return add_emit(entry, wire, n); },
    },
    .subtract = subtract,
    .read = read,
    .swap = swap,
    .sums = sums,
    .crc32c = crc32c,
    .max_abs_bits = max_abs_bits,
    .quantise = quantise,
    .dequantise = dequantise,
    .pack = pack,
    .unpack = unpack,
    .copy_sums = copy_sums,
    .rows = kRows<1, add_sums, subtract, sums>,
    .halves = {.add = [](auto* entry, auto* wire, auto n,
                         Ahead ahead) noexcept { return add_halves(entry, wire, n, ahead).overflow != 0; },
               .add_sums = add_halves,
               .add_emit = add_emit_halves,
               .subtract = subtract_halves,
               .sums = sums_of_halves,
               .quantise = quantise_halves,
               .dequantise = dequantise_halves,
               .copy_sums = copy_sums_of_halves},
    .half_rows = kRows<2, add_row_of_halves, subtract_halves, sums_of_halves>,
    .float16 = {.widen = widen_float16, .narrow = narrow_float16},
    .bfloat16 = {.widen = widen_bfloat16, .narrow = narrow_bfloat16},
};

}  // namespace tally::kernels
