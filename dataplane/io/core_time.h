#pragma once
// Time of one data core: the TSC, so that a turn costs one read of it, tied to CLOCK_MONOTONIC, which the
// other threads use. Owner: the core.

#include <cstdint>

#include "io/core_statistics.h"
#include "tally/time.h"

namespace tally::io {

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

// What a data core does when nothing arrives. Pure, but for rest(). Owner: the core.

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

}  // namespace tally::io
