#pragma once
// Time as the pure engines see it: nanoseconds of a monotonic clock that the caller reads.

#include <cstdint>

namespace tally {

using TimeNs = std::uint64_t;

inline constexpr TimeNs kMicrosecond = 1'000;
inline constexpr TimeNs kMillisecond = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;
inline constexpr TimeNs kNever = ~TimeNs{0};

}  // namespace tally
