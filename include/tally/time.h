#pragma once
// Time as the pure engines see it: nanoseconds of a monotonic clock that the caller reads.

#include <chrono>
#include <cstdint>

namespace tally {

using TimeNs = std::uint64_t;

inline constexpr TimeNs kMicrosecond = 1'000;
inline constexpr TimeNs kMillisecond = 1'000'000;
inline constexpr TimeNs kSecond = 1'000'000'000;
inline constexpr TimeNs kNever = ~TimeNs{0};

// CLOCK_MONOTONIC, for whoever drives an engine. Any thread; never goes back.
[[nodiscard]] inline TimeNs steady_now() noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<TimeNs>(std::chrono::nanoseconds(since).count());
}

// Nanoseconds of the calendar, for people: may step, also back.
[[nodiscard]] inline std::uint64_t unix_now() noexcept {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(since).count());
}

}  // namespace tally
