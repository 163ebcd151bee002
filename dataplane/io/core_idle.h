#pragma once
// What a data core does when nothing arrives. Pure, but for rest(). Owner: the core.

#include <cstdint>

#include "data_plane.h"
#include "tally/time.h"

namespace tally {

// The thread's sleeps end when they should, not up to 50 us later (the default slack).
void sleep_precisely() noexcept;

class CoreIdle {
 public:
  explicit CoreIdle(IdlePolicy policy) noexcept : adaptive_(policy == IdlePolicy::kAdaptive) {}

  enum class Action : std::uint8_t { kPoll, kYield, kSleep };
  struct Step {
    Action action = Action::kPoll;
    TimeNs sleep = 0;  // kSleep: how long
  };

  // After a turn at `now` that moved so many frames. backlog: frames wait for a port that takes none now.
  // due: when one that waits on purpose leaves; no sleep is longer.
  [[nodiscard]] Step after_turn(std::size_t moved, TimeNs now, bool backlog = false,
                                TimeNs due = kNever) noexcept;

  // Does it: polls again at once, lets other threads of this CPU run, or sleeps.
  static void rest(const Step& step) noexcept;

  // Silence up to this long is polled through: a gap between two bursts of a job that runs.
  static constexpr TimeNs kPollFor = 20 * kMicrosecond;
  // ... and up to this long other threads of the CPU get their turn, workers on the same host above all.
  static constexpr TimeNs kYieldFor = 200 * kMicrosecond;
  // Then a sleep is this part of the silence so far, so that it adds at most as much to what ends it; it
  // reaches kLongestSleep after 8 ms.
  static constexpr TimeNs kSilencePerSleep = 8;
  // With a backlog no sleep is longer: the port may take frames at any time, and who is on the other side of
  // a link that is down must not cost a CPU either. At 10 Gb/s these are 40 frames.
  static constexpr TimeNs kLongestSleepWithBacklog = 50 * kMicrosecond;

 private:
  bool adaptive_;
  bool silent_ = false;
  TimeNs since_ = 0;  // of the first turn that moved nothing
};

}  // namespace tally
