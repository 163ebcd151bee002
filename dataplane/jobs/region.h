#pragma once
// Slot memory of one core as the caller lends it: lines of 64 bytes. An entry is a line of registers and then
// its values, 16 to a line.

#include <cstddef>
#include <cstdint>
#include <span>

namespace tally {

struct alignas(64) Line {
  std::byte bytes[64];
};
static_assert(sizeof(Line) == 64);

// All zero at start: every entry free. Lives as long as the pipeline; touched by the owner core only.
using Region = std::span<Line>;

}  // namespace tally
