#pragma once
// The timer of each incomplete state of a job (docs/protocol_server.md, 11.7): FLUSH, then RESEND, in rounds
// whose intervals double; after kRounds of them that brought nothing the state is given up. A list for each
// step, in order of running out, so every call takes constant time.
//
// In a job over several boxes (docs/protocol_boxes.md, 17.4) a state may only wait, before its first step, since
// nothing tells that what it lacks is overdue: kPatience times, and longer each time.

#include <array>
#include <cstdint>
#include <vector>

#include "server/state_store.h"
#include "tally/ids.h"
#include "tally/plan.h"
#include "tally/time.h"

namespace tally::ps {

struct StateTimer {
  TimeNs due = 0;
  TimeNs asked_at = 0;    // all that is missing was asked for at a QUERY; 0: not yet
  TimeNs flushed_at = 0;  // the newest first FLUSH
  // Bitmaps of boxes. flushed: had that FLUSH and no other one, and have said nothing since.
  std::uint64_t flushed = 0;
  std::uint64_t whole =
      0;  // all that the box can hold has come from it in one piece: it has no entry any more
  server::StateIndex previous = server::kNoState;
  server::StateIndex next = server::kNoState;
  Chunk chunk{};
  std::uint16_t job = 0;   // index in PsOptions::jobs
  std::uint8_t steps = 0;  // FLUSHes and RESENDs since the state took something
  std::uint8_t waits = 0;  // times that it only waited since then
  std::uint8_t list = 0;   // of its job, while it runs
  bool running = false;
};

// One for each state of the table, shared by all jobs.
using StateTimerPool = std::vector<StateTimer>;

class StateTimers {
 public:
  StateTimers(StateTimerPool& pool, std::uint16_t job) : pool_(pool), job_(job) {}

  // Another epoch, of other boxes: what was measured means nothing for them.
  void forget_times() noexcept;

  // The state has just taken something that came from this box: its rounds begin. Also if the number was that
  // of another chunk of the job before, whose state is gone. whole: it was all that the box can hold.
  void start(server::StateIndex at, Chunk chunk, BoxIndex box, bool whole, TimeNs now) noexcept;
  void stop(server::StateIndex at) noexcept;
  void stop_all() noexcept;
  // A rank has asked for a state that waits: is all that is missing to be asked for now? Not more often than
  // the timer would.
  [[nodiscard]] bool asks_now(server::StateIndex at, TimeNs now) noexcept;
  // The next step of a timer that is due was taken; flushed: bitmap of the boxes that had a FLUSH.
  void stepped(server::StateIndex at, std::uint64_t flushed, TimeNs now) noexcept;
  // A timer that is due only waits, once more. False: it was patient for long enough.
  [[nodiscard]] bool put_off(server::StateIndex at, TimeNs now) noexcept;
  // This box answered the FLUSH of a state at `now`: a sample of the time that takes, unless there were several.
  void answered(server::StateIndex at, BoxIndex box, TimeNs now) noexcept;

  [[nodiscard]] server::StateIndex due(TimeNs now) const noexcept;  // kNoState: none
  [[nodiscard]] TimeNs deadline() const noexcept;
  // Of this job and running; else nullptr.
  [[nodiscard]] const StateTimer* find(server::StateIndex at) const noexcept {
    if (at == server::kNoState || !pool_[at].running || pool_[at].job != job_) return nullptr;
    return &pool_[at];
  }
  // Smoothed, of the box that takes longest; 0 before a sample.
  [[nodiscard]] TimeNs flush_time() const noexcept { return flush_time_; }

  static constexpr std::uint8_t kRounds = 4;
  static constexpr std::uint8_t kSteps = 2 * kRounds;
  static constexpr TimeNs kLeastWait = 2 * kMillisecond;
  static constexpr TimeNs kLongestWait = 100 * kMillisecond;
  static constexpr std::uint8_t kPatience = 14;  // with the least wait a second together

 private:
  struct List {
    server::StateIndex head = server::kNoState;
    server::StateIndex tail = server::kNoState;
  };
  void append(server::StateIndex at, std::uint8_t list, TimeNs wait, TimeNs now) noexcept;
  void unlink(server::StateIndex at) noexcept;
  [[nodiscard]] TimeNs wait_after(std::uint8_t steps) const noexcept { return doubled(steps / 2U); }
  [[nodiscard]] TimeNs doubled(unsigned times) const noexcept;

  StateTimerPool& pool_;
  static constexpr std::size_t kLists = kSteps + 1 + kPatience;
  static_assert(kLists <= 32);
  std::array<List, kLists> lists_{};                 // by steps taken, then by times waited
  std::uint32_t in_use_ = 0;                         // bitmap of the lists that are not empty
  std::array<TimeNs, kMaxPlanBoxes> flush_times_{};  // by box
  TimeNs flush_time_ = 0;
  std::uint16_t job_;
};

}  // namespace tally::ps
