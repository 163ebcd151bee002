#pragma once
// Values of one data chunk between the caller's spans and the wire. Pieces of several spans are joined; the
// last chunk of an operation is zero-padded to its wire length. Encoding the same input gives the same bits,
// which is what allows a contribution to be made again instead of being kept.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "engine_operation.h"
#include "kernels.h"

namespace tally {

// Has the CPU fetch what is read for the first time soon, kFetchAhead data chunks behind this one: its own
// prefetchers stop at the end of a page.
void fetch_ahead(const EngineOperation& operation, std::uint64_t data_chunk) noexcept;

// Largest bit pattern of |x| of the elements.
[[nodiscard]] std::uint32_t max_abs_bits(const EngineOperation& operation, ElementRange range,
                                         const Kernels& kernels) noexcept;

// Element that has no block exponent: NaN, Inf or a magnitude above 2^127.
struct BadElement {
  std::uint64_t element = 0;  // in the concatenation
  float value = 0;
};
[[nodiscard]] std::optional<BadElement> find_bad_element(const EngineOperation& operation,
                                                         ElementRange range) noexcept;

// Writes the elements, then zeros up to the end of `wire` (a multiple of 16 elements).
// `exponent`: E of the data chunk; ignored for int32. Of a block that exceeds it, `late` must be set: its
// values are clipped to +-2^E. `shift`: sum_shift(world).
Packed encode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                    std::span<std::byte> wire, const Kernels& kernels, bool late = false) noexcept;

// Writes the sums to the output spans; the padding is ignored. contributors: how many ranks are in them, by
// which an operation that wants the mean divides.
void decode_chunk(const EngineOperation& operation, ElementRange range, int exponent, int shift,
                  std::span<const std::byte> wire, const Kernels& kernels,
                  std::uint32_t contributors = 1) noexcept;

}  // namespace tally
