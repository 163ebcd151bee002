#pragma once
// Whether sums that came back are right: int32 exactly, float32 within the protocol's bound of the float64
// sum of what all ranks contributed.

#include <cstdint>
#include <span>

namespace tally {

struct SumCheckOptions {
  std::uint64_t seed = 0;
  std::uint64_t iteration = 0;
  std::uint32_t world = 1;     // 1..64
  std::uint16_t elements = 0;  // most values of a packet: 16..2224; blocks of the quantisation
};

struct SumCheckResult {
  std::uint64_t wrong = 0;        // elements
  std::uint64_t first_wrong = 0;  // index in the tensor; only if wrong > 0
  double got = 0;                 // there
  double expected = 0;            // there, the float64 sum
  double largest_error = 0;       // float32: largest error in parts of its bound; <= 1 unless wrong

  void add(const SumCheckResult& other) noexcept;  // keeps the first wrong one of the first that has any
};

// sums: of one whole operation, whose elements are first, first + 1, ... of the streams (value_stream.h).
[[nodiscard]] SumCheckResult check_sums(std::span<const float> sums, std::uint64_t first, float scale,
                                        const SumCheckOptions& options) noexcept;
[[nodiscard]] SumCheckResult check_sums(std::span<const std::int32_t> sums, std::uint64_t first,
                                        const SumCheckOptions& options) noexcept;

}  // namespace tally
