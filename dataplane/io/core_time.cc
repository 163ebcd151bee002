#include "io/core_time.h"

#include <rte_cycles.h>
#include <sched.h>
#include <sys/prctl.h>
#include <algorithm>
#include <ctime>

namespace tally::io {

CoreClock::CoreClock() noexcept : ns_per_cycle_(1e9 / static_cast<double>(rte_get_tsc_hz())) {
  retie_cycles_ = static_cast<std::uint64_t>(static_cast<double>(kTied) / ns_per_cycle_);
  tie(rte_rdtsc());
}

void CoreClock::tie(std::uint64_t cycles) noexcept {
  tied_ns_ = steady_now();
  tied_cycles_ = cycles;
}

TimeNs CoreClock::now() noexcept {
  cycles_ = rte_rdtsc();
  if (cycles_ - tied_cycles_ > retie_cycles_) tie(cycles_);
  const auto since = static_cast<TimeNs>(static_cast<double>(cycles_ - tied_cycles_) * ns_per_cycle_);
  last_ = std::max(last_, tied_ns_ + since);
  return last_;
}

void sleep_precisely() noexcept { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

CoreIdle::Step CoreIdle::after_turn(std::size_t moved, TimeNs now, bool backlog, TimeNs due) noexcept {
  if (moved != 0 || !adaptive_) {
    silent_ = false;
    return {};
  }
  if (!silent_) {
    silent_ = true;
    since_ = now;
  }
  const TimeNs silence = now - since_;
  if (silence < kPollFor) return {};
  if (silence < kYieldFor) return {Action::kYield};
  const TimeNs longest = backlog ? kLongestSleepWithBacklog : kLongestSleep;
  if (due <= now) return {};
  return {Action::kSleep, std::min({silence / kSilencePerSleep, longest, due - now})};
}

void CoreIdle::rest(const Step& step) noexcept {
  switch (step.action) {
    case Action::kPoll:
      break;
    case Action::kYield:
      sched_yield();
      break;
    case Action::kSleep: {
      const timespec how_long{0, static_cast<long>(step.sleep)};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &how_long, nullptr);
      break;
    }
  }
}

}  // namespace tally::io
