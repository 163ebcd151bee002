#pragma once
// The timer of each incomplete state of a job (docs/protocol_server.md, 11.7): FLUSH, then RESEND, in rounds
// whose intervals double; after kRounds of them that brought nothing the state is given up. A list for each
// step, in order of running out, so every call takes constant time.

#include <array>
#include <cstdint>
#include <vector>

#include "server/state_store.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::ps {

struct StateTimer {
  TimeNs due = 0;
  TimeNs asked_at = 0;    // all that is missing was asked for at a QUERY; 0: not yet
  TimeNs flushed_at = 0;  // the only FLUSH since the state took something; 0: none or several
  server::StateIndex previous = server::kNoState;
  server::StateIndex next = server::kNoState;
  Chunk chunk{};
  std::uint16_t job = 0;   // index in PsOptions::jobs
  std::uint8_t steps = 0;  // FLUSHes and RESENDs since the state took something
  bool running = false;    // in a list of its job
};

// One for each state of the table, shared by all jobs.
using StateTimerPool = std::vector<StateTimer>;

class StateTimers {
 public:
  StateTimers(StateTimerPool& pool, std::uint16_t job) : pool_(pool), job_(job) {}

  // The state has just taken something: its rounds begin. Also if the number was that of another chunk of the
  // job before, whose state is gone.
  void start(server::StateIndex at, Chunk chunk, TimeNs now) noexcept;
  void stop(server::StateIndex at) noexcept;
  void stop_all() noexcept;
  // A rank has asked for a state that waits: is all that is missing to be asked for now? Not more often than
  // the timer would.
  [[nodiscard]] bool asks_now(server::StateIndex at, TimeNs now) noexcept;
  // The next step of a timer that is due was taken.
  void stepped(server::StateIndex at, TimeNs now) noexcept;
  // The FLUSH of a state was answered at `now`: a sample of the time that takes, unless there were several.
  void answered(server::StateIndex at, TimeNs now) noexcept;

  [[nodiscard]] server::StateIndex due(TimeNs now) const noexcept;  // kNoState: none
  [[nodiscard]] TimeNs deadline() const noexcept;
  // Of this job and running; else nullptr.
  [[nodiscard]] const StateTimer* find(server::StateIndex at) const noexcept {
    if (at == server::kNoState || !pool_[at].running || pool_[at].job != job_) return nullptr;
    return &pool_[at];
  }
  [[nodiscard]] TimeNs flush_time() const noexcept { return flush_time_; }  // smoothed; 0 before a sample

  static constexpr std::uint8_t kRounds = 4;
  static constexpr std::uint8_t kSteps = 2 * kRounds;
  static constexpr TimeNs kLeastWait = 2 * kMillisecond;
  static constexpr TimeNs kLongestWait = 100 * kMillisecond;

 private:
  struct List {
    server::StateIndex head = server::kNoState;
    server::StateIndex tail = server::kNoState;
  };
  void append(server::StateIndex at, TimeNs now) noexcept;
  void unlink(server::StateIndex at) noexcept;
  [[nodiscard]] TimeNs wait_after(std::uint8_t steps) const noexcept;

  StateTimerPool& pool_;
  std::array<List, kSteps + 1> lists_{};  // by steps taken
  TimeNs flush_time_ = 0;
  std::uint16_t job_;
};

}  // namespace tally::ps
