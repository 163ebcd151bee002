#pragma once
// Time of one data core: the TSC, so that a turn costs one read of it, tied to CLOCK_MONOTONIC, which the
// other threads use. Owner: the core.

#include <cstdint>

#include "tally/time.h"

namespace tally {

class CoreClock {
 public:
  CoreClock() noexcept;

  // Nanoseconds of CLOCK_MONOTONIC, within what the TSC drifts in kTied. Never goes back.
  [[nodiscard]] TimeNs now() noexcept;
  // The TSC as now() last read it.
  [[nodiscard]] std::uint64_t cycles() const noexcept { return cycles_; }

  // How often clock_gettime is asked. A TSC whose frequency is known 100 ppm wrong is then 1 us off.
  static constexpr TimeNs kTied = 10 * kMillisecond;

 private:
  void tie(std::uint64_t cycles) noexcept;

  double ns_per_cycle_;
  std::uint64_t tied_cycles_ = 0;
  std::uint64_t retie_cycles_ = 0;  // cycles from a tie to the next
  TimeNs tied_ns_ = 0;
  std::uint64_t cycles_ = 0;
  TimeNs last_ = 0;
};

}  // namespace tally
