#pragma once
// The priority byte of a packet: two bits of class, six bits that say how little its operation has left.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "tally/priority.h"

namespace tally {

// 63 with one chunk left, four steps lower with each doubling (linear in between), 0 from 57,344 on.
constexpr std::uint32_t urgency(std::uint64_t chunks_left) noexcept {
  constexpr std::uint32_t kMost = 63;
  const auto octave = static_cast<std::uint32_t>(std::bit_width(chunks_left | 1)) - 1;
  const auto quarter = static_cast<std::uint32_t>((chunks_left << 2 >> octave) & 3);
  return kMost - std::min(4 * octave + quarter, kMost);
}

// `of_worker`: the worker's default. `maximum`: of the job; the box lowers what is above it to it, which
// would make all of an operation's packets equal. So the urgency is scaled to what the maximum leaves of the
// class.
constexpr std::uint8_t packet_priority(Priority chosen, std::uint8_t of_worker, std::uint8_t maximum,
                                       std::uint64_t chunks_left) noexcept {
  if (chosen.kind == Priority::Kind::kValue) return static_cast<std::uint8_t>(chosen.number);
  const std::uint32_t lowest_of_class = chosen.kind == Priority::Kind::kClass
                                            ? static_cast<std::uint32_t>(chosen.number) << 6
                                            : of_worker & 0xC0U;
  const std::uint32_t top = std::min<std::uint32_t>(lowest_of_class | 0x3F, maximum);
  return static_cast<std::uint8_t>((top & 0xC0) | urgency(chunks_left) * ((top & 0x3F) + 1) / 64);
}

// Why a program may not choose it; empty if it may.
[[nodiscard]] std::string objection_to(Priority chosen);

}  // namespace tally
