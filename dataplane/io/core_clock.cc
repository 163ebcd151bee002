#include "core_clock.h"

#include <algorithm>
#include <chrono>

#include <rte_cycles.h>

namespace tally {

CoreClock::CoreClock() noexcept : ns_per_cycle_(1e9 / static_cast<double>(rte_get_tsc_hz())) {
  retie_cycles_ = static_cast<std::uint64_t>(static_cast<double>(kTied) / ns_per_cycle_);
  tie(rte_rdtsc());
}

void CoreClock::tie(std::uint64_t cycles) noexcept {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  tied_ns_ = static_cast<TimeNs>(std::chrono::duration_cast<std::chrono::nanoseconds>(since).count());
  tied_cycles_ = cycles;
}

TimeNs CoreClock::now() noexcept {
  cycles_ = rte_rdtsc();
  if (cycles_ - tied_cycles_ > retie_cycles_) tie(cycles_);
  const auto since = static_cast<TimeNs>(static_cast<double>(cycles_ - tied_cycles_) * ns_per_cycle_);
  last_ = std::max(last_, tied_ns_ + since);
  return last_;
}

}  // namespace tally
