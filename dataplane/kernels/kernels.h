#pragma once
// The SIMD kernels behind one table, chosen once at start by CPU flags (never by -march). Every variant is
// bit-equal to the scalar one.
//
// `entry`: host-order int32 values of a slot, 64-byte aligned. `wire`: big-endian int32 values inside a
// packet, any alignment. `n`: number of elements; in the switch kernels a multiple of 16 (0 is legal), in the
// worker kernels any. No kernel reads or writes outside n elements; entry, span and packet do not overlap.
// Additions wrap modulo 2^32.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tally::kernels {

// sum1 = sum of the elements (without the rank key), sum2 = sum of (i+1)*element[i]; both modulo 2^32.
struct Sums {
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  constexpr bool operator==(const Sums&) const noexcept = default;
};

// Sums of two adjoining runs of elements, the first of `head_elements`.
constexpr Sums joined_sums(Sums head, std::uint32_t head_elements, Sums tail) noexcept {
  return {head.sum1 + tail.sum1, head.sum2 + tail.sum2 + head_elements * tail.sum1};
}

struct Added {
  Sums sums;                   // of what the kernel's comment says
  std::uint32_t overflow = 0;  // 1: some element left int32 in this addition (two's complement overflow)
};

struct Packed {
  Sums sums;                    // of the packed elements
  std::uint32_t magnitude = 0;  // largest |element|, 2^31 for INT32_MIN
};

// What a kernel fetches into the cache as it goes, a line of each for each line of its own: the values of a
// later packet, and their entry for writing. It reads neither, so both may point anywhere.
struct Ahead {
  const std::byte* values = nullptr;
  const std::int32_t* entry = nullptr;
};

// Kernels of the same name, bit by bit, that fetch.
struct FetchingKernels {
  void (*write)(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Ahead ahead) noexcept;
  bool (*add)(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Ahead ahead) noexcept;
  Added (*add_sums)(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Ahead ahead) noexcept;
  Added (*add_emit)(std::int32_t* entry, std::byte* wire, std::uint32_t n, Ahead ahead) noexcept;
};

// Of packets with two values of 16 bits in a word, n of them: what differs from words of one value. In an
// entry they lie as the words do, in host order: what only moves words (write, read, swap) need not know of
// them. n: a multiple of 32, where not said otherwise.
struct HalvesKernels {
  bool (*add)(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Ahead ahead) noexcept;
  Added (*add_sums)(std::int32_t* entry, const std::byte* wire, std::uint32_t n, Ahead ahead) noexcept;
  Added (*add_emit)(std::int32_t* entry, std::byte* wire, std::uint32_t n, Ahead ahead) noexcept;
  void (*subtract)(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept;
  Sums (*sums)(const std::byte* wire, std::uint32_t n) noexcept;  // of the values, sign-extended

  // Worker; limit below 2^15. Any n for the first two.
  Packed (*quantise)(const float* in, std::byte* wire, std::uint32_t n, float scale,
                     std::int32_t limit) noexcept;
  void (*dequantise)(const std::byte* wire, float* out, std::uint32_t n, float scale) noexcept;
  Sums (*copy_sums)(const std::byte* wire, std::byte* to, std::uint32_t n) noexcept;
};

// Rows of 16 words, some of those of a block (tally/rows.h).
struct SomeRows {
  const std::byte* wire = nullptr;         // one after the other
  const std::uint64_t* present = nullptr;  // a bit for each row of the block, 64 to a word
  std::uint32_t count = 0;                 // rows of the block
};

// The switch kernels of the same names, where the other rows are zeros. Sums are of the whole block.
struct RowsKernels {
  void (*write)(std::int32_t* entry, const SomeRows& rows) noexcept;
  bool (*add)(std::int32_t* entry, const SomeRows& rows) noexcept;
  Added (*add_sums)(std::int32_t* entry, const SomeRows& rows) noexcept;
  void (*subtract)(std::int32_t* entry, const SomeRows& rows) noexcept;
  Sums (*sums)(const SomeRows& rows) noexcept;
};

// Worker: floats of 16 bits as a program has them (any n; not on the wire). A NaN stays one and becomes quiet.
struct ShortFloatKernels {
  void (*widen)(const std::uint16_t* in, float* out, std::uint32_t n) noexcept;   // exact
  void (*narrow)(const float* in, std::uint16_t* out, std::uint32_t n) noexcept;  // to nearest, ties to even
};

struct Kernels {
  std::string_view name;  // "scalar", "avx2", "avx512"

  // Switch: entry and packet. Overflow and sums are independent of each other: sums stay valid with overflow.
  void (*write)(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept;
  // Returns whether some element overflowed.
  bool (*add)(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept;
  // Sums are those of the packet. subtract of the same packet undoes it when they are wrong.
  Added (*add_sums)(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept;
  // Completion in one pass: the sum goes to the entry and to the packet. Sums are those of the result.
  Added (*add_emit)(std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept;
  FetchingKernels fetching;
  void (*subtract)(std::int32_t* entry, const std::byte* wire, std::uint32_t n) noexcept;
  void (*read)(const std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept;
  void (*swap)(std::int32_t* entry, std::byte* wire, std::uint32_t n) noexcept;  // exchanges values
  Sums (*sums)(const std::byte* wire, std::uint32_t n) noexcept;
  // Castagnoli polynomial, reflected, initial value and final exclusive-or ~0 (RFC 3720); any length.
  std::uint32_t (*crc32c)(const std::byte* data, std::size_t bytes) noexcept;

  // Worker: spans and packet. `scale` is finite; the floating-point environment is the default one (round to
  // nearest, no flush to zero), otherwise ranks would send different bits.
  // Largest bit pattern of |x|, i.e. max of (bits & 0x7fffffff): > 0x7f800000 means a NaN, == an Inf.
  std::uint32_t (*max_abs_bits)(const float* in, std::size_t n) noexcept;
  // r = rint(float(x * scale)), ties to even, saturated to int32; q = r clipped to +-limit, limit >= 0. Sums
  // are those of q, magnitude that of r. The caller refuses NaN by max_abs_bits; here it would count as
  // INT32_MIN, so its magnitude raises OVERFLOW.
  Packed (*quantise)(const float* in, std::byte* wire, std::uint32_t n, float scale,
                     std::int32_t limit) noexcept;
  // x = float(q) * scale, both rounded to nearest.
  void (*dequantise)(const std::byte* wire, float* out, std::uint32_t n, float scale) noexcept;
  Packed (*pack)(const std::int32_t* in, std::byte* wire, std::uint32_t n) noexcept;
  void (*unpack)(const std::byte* wire, std::int32_t* out, std::uint32_t n) noexcept;
  // The sums of a packet while its bytes go to `to` as they are; they do not overlap.
  Sums (*copy_sums)(const std::byte* wire, std::byte* to, std::uint32_t n) noexcept;

  RowsKernels rows;
  HalvesKernels halves;
  RowsKernels half_rows;       // of packets with two values in a word
  ShortFloatKernels float16;   // IEEE 754 binary16
  ShortFloatKernels bfloat16;  // the upper half of a float
};

// The best table this CPU can run. Thread-safe; the choice is made once.
[[nodiscard]] const Kernels& best_kernels() noexcept;

// All tables this CPU can run, the scalar reference first.
[[nodiscard]] std::span<const Kernels* const> usable_kernels() noexcept;

// The tables behind it and what they share. Private to this folder: callers ask best_kernels().

extern const Kernels kScalarKernels;
extern const Kernels kAvx2Kernels;    // needs avx2, f16c, sse4.2
extern const Kernels kAvx512Kernels;  // needs avx512 f, bw, dq; avx2; f16c; sse4.2

// Kernels::crc32c by the crc32 instruction; needs sse4.2.
std::uint32_t crc32c_sse42(const std::byte* data, std::size_t bytes) noexcept;

}  // namespace tally::kernels
