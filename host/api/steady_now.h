#pragma once
// The clock of whoever drives an engine; engines themselves are told the time.

#include <chrono>

#include "tally/time.h"

namespace tally {

// Any thread. Never goes back.
[[nodiscard]] inline TimeNs steady_now() noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<TimeNs>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
}

}  // namespace tally
