// The instructions of AVX-512 for the loops of vector_kernels.h.
#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,avx512f,avx512bw,avx512dq"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,avx512f,avx512bw,avx512dq")
#endif

#include "kernels/vector_kernels.h"

namespace tally::kernels {
namespace {

struct Avx512 {
  using Int = __m512i;
  using Float = __m512;
  using Part = __mmask16;
  static constexpr std::uint32_t kLanes = 16;

  static Int all(std::uint32_t value) noexcept { return _mm512_set1_epi32(static_cast<int>(value)); }
  static Int all(std::int32_t value) noexcept { return _mm512_set1_epi32(value); }
  static Float all(float value) noexcept { return _mm512_set1_ps(value); }
  static Int lane_numbers() noexcept {
    return _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  }

  static Part first(std::size_t lanes) noexcept { return static_cast<Part>((1u << lanes) - 1); }
  static Int load(const void* from, Whole) noexcept { return _mm512_loadu_si512(from); }
  static Int load(const void* from, Part part) noexcept { return _mm512_maskz_loadu_epi32(part, from); }
  static void store(void* to, Int v, Whole) noexcept { _mm512_storeu_si512(to, v); }
  static void store(void* to, Int v, Part part) noexcept { _mm512_mask_storeu_epi32(to, part, v); }

  static Int swapped(Int v) noexcept {
    return _mm512_shuffle_epi8(
        v, _mm512_broadcast_i32x4(_mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3)));
  }
  static Int add(Int a, Int b) noexcept { return _mm512_add_epi32(a, b); }
  static Int subtract(Int a, Int b) noexcept { return _mm512_sub_epi32(a, b); }
  static Int multiply(Int a, Int b) noexcept { return _mm512_mullo_epi32(a, b); }
  static Int times_lanes(Int v) noexcept { return _mm512_slli_epi32(v, 4); }

  // Sign bits: an addition overflows when both operands differ in sign from the result.
  static Int or_overflow(Int sticky, Int a, Int b, Int sum) noexcept {
    constexpr int kBothDifferFromThird = 0x42;  // truth table of (a ^ sum) & (b ^ sum), index a b sum
    return _mm512_or_si512(sticky, _mm512_ternarylogic_epi32(a, b, sum, kBothDifferFromThird));
  }
  static Int or_overflow_of_halves(Int sticky, Int a, Int b, Int sum) noexcept {
    return or_overflow(sticky, a, b, sum);
  }
  static bool any_sign(Int v) noexcept { return _mm512_movepi32_mask(v) != 0; }

  // Two values in a word, the first in its upper half.
  static Int add_halves(Int a, Int b) noexcept { return _mm512_add_epi16(a, b); }
  static Int subtract_halves(Int a, Int b) noexcept { return _mm512_sub_epi16(a, b); }
  static bool any_half_sign(Int v) noexcept { return _mm512_movepi16_mask(v) != 0; }
  static Int pair_sums(Int v) noexcept { return _mm512_madd_epi16(v, _mm512_set1_epi16(1)); }
  static Int upper_halves(Int v) noexcept { return _mm512_srai_epi32(v, 16); }
  // Values of 16 bits on the wire, and as words.
  static __m256i swapped_halves(__m256i v) noexcept {
    return _mm256_shuffle_epi8(
        v, _mm256_broadcastsi128_si256(_mm_set_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1)));
  }
  static void store_halves(void* to, Int v) noexcept {
    _mm256_storeu_si256(static_cast<__m256i*>(to), swapped_halves(_mm512_cvtepi32_epi16(v)));
  }
  static Int load_halves(const void* from) noexcept {
    return _mm512_cvtepi16_epi32(swapped_halves(_mm256_loadu_si256(static_cast<const __m256i*>(from))));
  }

  // A program's floats of 16 bits. bfloat16 as the scalar kernels do it; a NaN becomes quiet.
  static Int load_float16(const void* from) noexcept {
    return _mm512_castps_si512(_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from))));
  }
  static void store_float16(void* to, Int bits) noexcept {
    _mm256_storeu_si256(static_cast<__m256i*>(to),
                        _mm512_cvtps_ph(_mm512_castsi512_ps(bits), _MM_FROUND_TO_NEAREST_INT));
  }
  static __mmask16 no_numbers(Int bits) noexcept {
    const Float v = _mm512_castsi512_ps(bits);
    return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  }
  static Int load_bfloat16(const void* from) noexcept {
    const Int bits =
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from))), 16);
    return _mm512_mask_or_epi32(bits, no_numbers(bits), bits, all(0x40'0000U));
  }
  static void store_bfloat16(void* to, Int bits) noexcept {
    const Int odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), all(1U));
    const Int rounded = add(bits, add(odd, all(0x7FFFU)));
    const Int upper = _mm512_mask_or_epi32(rounded, no_numbers(bits), bits, all(0x40'0000U));
    _mm256_storeu_si256(static_cast<__m256i*>(to), _mm512_cvtepi32_epi16(_mm512_srli_epi32(upper, 16)));
  }

  static Int max_abs_bits(Int max, Int bits) noexcept {
    return _mm512_max_epu32(max, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
  }
  static Int max_magnitude(Int max, Int v) noexcept { return _mm512_max_epu32(max, _mm512_abs_epi32(v)); }
  static std::uint32_t largest(Int v) noexcept { return _mm512_reduce_max_epu32(v); }

  // The conversion gives INT32_MIN for everything outside int32; inverted, that is INT32_MAX.
  static Int scaled_and_rounded(Int bits, Float scale) noexcept {
    const Float product = _mm512_mul_ps(_mm512_castsi512_ps(bits), scale);
    const Int q = _mm512_cvtps_epi32(product);
    const __mmask16 above = _mm512_cmp_ps_mask(product, _mm512_set1_ps(0x1p31f), _CMP_GE_OQ);
    return _mm512_mask_xor_epi32(q, above, q, _mm512_set1_epi32(-1));
  }
  static Int clipped(Int v, Int limit) noexcept {
    return _mm512_max_epi32(_mm512_min_epi32(v, limit), _mm512_sub_epi32(Int{}, limit));
  }
  static Int as_scaled_float(Int v, Float scale) noexcept {
    return _mm512_castps_si512(_mm512_mul_ps(_mm512_cvtepi32_ps(v), scale));
  }

  // Totals of both vectors' lanes, reduced side by side: shorter than one after the other.
  static Sums both_totals(Int sum1, Int sum2) noexcept {
    const __m512i pairs =
        _mm512_add_epi32(_mm512_unpacklo_epi32(sum1, sum2), _mm512_unpackhi_epi32(sum1, sum2));
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(pairs), _mm512_extracti64x4_epi64(pairs, 1));
    const __m128i quarter = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i total = _mm_add_epi32(quarter, _mm_unpackhi_epi64(quarter, quarter));
    const auto both = static_cast<std::uint64_t>(_mm_cvtsi128_si64(total));
    return {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32)};
  }
};

}  // namespace

constinit const Kernels kAvx512Kernels = vector_kernels<Avx512>("avx512");

}  // namespace tally::kernels

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
