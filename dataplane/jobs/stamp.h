#pragma once

#include <cstdint>

#include "tally/time.h"

namespace tally {

// Time in a register: units of 1,024 ns modulo 2^32, 73 minutes.
constexpr std::uint32_t stamp(TimeNs at) noexcept { return static_cast<std::uint32_t>(at >> 10); }

}  // namespace tally
