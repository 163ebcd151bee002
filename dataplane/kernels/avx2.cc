// The instructions of AVX2 for the loops of vector_kernels.h.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#include "kernels/vector_kernels.h"

namespace tally::kernels {
namespace {

struct Avx2 {
  using Int = __m256i;
  using Float = __m256;
  struct Part {
    __m256i lanes;  // all bits set in those that count
  };
  static constexpr std::uint32_t kLanes = 8;

  static Int all(std::uint32_t value) noexcept { return _mm256_set1_epi32(static_cast<int>(value)); }
  static Int all(std::int32_t value) noexcept { return _mm256_set1_epi32(value); }
  static Float all(float value) noexcept { return _mm256_set1_ps(value); }
  static Int lane_numbers() noexcept { return _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0); }

  static Part first(std::size_t lanes) noexcept {
    return {_mm256_cmpgt_epi32(all(static_cast<std::uint32_t>(lanes)), lane_numbers())};
  }
  static Int load(const void* from, Whole) noexcept {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static Int load(const void* from, Part part) noexcept {
    return _mm256_maskload_epi32(static_cast<const int*>(from), part.lanes);
  }
  static void store(void* to, Int v, Whole) noexcept { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }
  static void store(void* to, Int v, Part part) noexcept {
    _mm256_maskstore_epi32(static_cast<int*>(to), part.lanes, v);
  }

  static Int swapped(Int v) noexcept {
    return _mm256_shuffle_epi8(
        v, _mm256_broadcastsi128_si256(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)));
  }
  static Int add(Int a, Int b) noexcept { return _mm256_add_epi32(a, b); }
  static Int subtract(Int a, Int b) noexcept { return _mm256_sub_epi32(a, b); }
  static Int multiply(Int a, Int b) noexcept { return _mm256_mullo_epi32(a, b); }
  static Int times_lanes(Int v) noexcept { return _mm256_slli_epi32(v, 3); }

  // Sign bits: an addition overflows unless the sum is below one operand just when the other is negative.
  static Int or_overflow(Int sticky, Int a, Int b, Int sum) noexcept {
    return _mm256_or_si256(sticky, _mm256_xor_si256(_mm256_cmpgt_epi32(a, sum), b));
  }
  static bool any_sign(Int v) noexcept { return _mm256_movemask_ps(_mm256_castsi256_ps(v)) != 0; }

  // Two values in a word, the first in its upper half.
  static Int add_halves(Int a, Int b) noexcept { return _mm256_add_epi16(a, b); }
  static Int or_overflow_of_halves(Int sticky, Int a, Int b, Int sum) noexcept {
    return _mm256_or_si256(sticky, _mm256_xor_si256(_mm256_cmpgt_epi16(a, sum), b));
  }
  static Int subtract_halves(Int a, Int b) noexcept { return _mm256_sub_epi16(a, b); }
  static bool any_half_sign(Int v) noexcept {
    return (static_cast<std::uint32_t>(_mm256_movemask_epi8(v)) & 0xAAAA'AAAAU) != 0;
  }
  static Int pair_sums(Int v) noexcept { return _mm256_madd_epi16(v, _mm256_set1_epi16(1)); }
  static Int upper_halves(Int v) noexcept { return _mm256_srai_epi32(v, 16); }
  // Values of 16 bits on the wire, and as words.
  static __m128i swapped_halves(__m128i v) noexcept {
    return _mm_shuffle_epi8(v, _mm_set_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1));
  }
  static void store_halves(void* to, Int v) noexcept {
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi32(v, v), 0x08);
    _mm_storeu_si128(static_cast<__m128i*>(to), swapped_halves(_mm256_castsi256_si128(packed)));
  }
  static Int load_halves(const void* from) noexcept {
    return _mm256_cvtepi16_epi32(swapped_halves(_mm_loadu_si128(static_cast<const __m128i*>(from))));
  }

  // A program's floats of 16 bits. bfloat16 as the scalar kernels do it; a NaN becomes quiet.
  static Int load_float16(const void* from) noexcept {
    return _mm256_castps_si256(_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from))));
  }
  static void store_float16(void* to, Int bits) noexcept {
    _mm_storeu_si128(static_cast<__m128i*>(to),
                     _mm256_cvtps_ph(_mm256_castsi256_ps(bits), _MM_FROUND_TO_NEAREST_INT));
  }
  static Int no_numbers(Int bits) noexcept {
    const Float v = _mm256_castsi256_ps(bits);
    return _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  }
  static Int load_bfloat16(const void* from) noexcept {
    const Int bits =
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from))), 16);
    return _mm256_or_si256(bits, _mm256_and_si256(no_numbers(bits), all(0x40'0000U)));
  }
  static void store_bfloat16(void* to, Int bits) noexcept {
    const Int odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), all(1U));
    const Int rounded = add(bits, add(odd, all(0x7FFFU)));
    const Int quiet = _mm256_or_si256(bits, all(0x40'0000U));
    const Int upper = _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, no_numbers(bits)), 16);
    const Int packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(upper, upper), 0x08);
    _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_castsi256_si128(packed));
  }

  static Int max_abs_bits(Int max, Int bits) noexcept {
    return _mm256_max_epu32(max, _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff)));
  }
  static Int max_magnitude(Int max, Int v) noexcept { return _mm256_max_epu32(max, _mm256_abs_epi32(v)); }
  static std::uint32_t largest(Int v) noexcept {
    const __m128i half = _mm_max_epu32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    const __m128i pair = _mm_max_epu32(half, _mm_unpackhi_epi64(half, half));
    const __m128i one = _mm_max_epu32(pair, _mm_shuffle_epi32(pair, 1));
    return static_cast<std::uint32_t>(_mm_cvtsi128_si32(one));
  }

  // The conversion gives INT32_MIN for everything outside int32; inverted, that is INT32_MAX.
  static Int scaled_and_rounded(Int bits, Float scale) noexcept {
    const Float product = _mm256_mul_ps(_mm256_castsi256_ps(bits), scale);
    const Float above = _mm256_cmp_ps(product, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ);
    return _mm256_xor_si256(_mm256_cvtps_epi32(product), _mm256_castps_si256(above));
  }
  static Int clipped(Int v, Int limit) noexcept {
    return _mm256_max_epi32(_mm256_min_epi32(v, limit), _mm256_sub_epi32(Int{}, limit));
  }
  static Int as_scaled_float(Int v, Float scale) noexcept {
    return _mm256_castps_si256(_mm256_mul_ps(_mm256_cvtepi32_ps(v), scale));
  }

  // Totals of both vectors' lanes, reduced side by side: shorter than one after the other.
  static Sums both_totals(Int sum1, Int sum2) noexcept {
    const __m256i pairs =
        _mm256_add_epi32(_mm256_unpacklo_epi32(sum1, sum2), _mm256_unpackhi_epi32(sum1, sum2));
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1));
    const __m128i total = _mm_add_epi32(half, _mm_unpackhi_epi64(half, half));
    const auto both = static_cast<std::uint64_t>(_mm_cvtsi128_si64(total));
    return {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32)};
  }
};

}  // namespace

constinit const Kernels kAvx2Kernels = vector_kernels<Avx2>("avx2");

}  // namespace tally::kernels

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
