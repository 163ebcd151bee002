#include "core_idle.h"

#include <sched.h>
#include <sys/prctl.h>

#include <algorithm>
#include <ctime>

namespace tally {

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

}  // namespace tally
