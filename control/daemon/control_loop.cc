#include "daemon/control_loop.h"

#include <utility>

#include "members/texts.h"
#include "text/text.h"

namespace tally::daemon {

void Shutdown::begin(TimeNs now) {
  if (state_ != State::kNotYet) return;
  state_ = State::kDraining;
  until_ = now + drain_;
  members_.look_at_all(now);  // sessions end now, and their status is what will be printed of them
  const std::size_t left = members_.engine().close(kShutdownReason);
  if (left == 0) {
    log_(LogLevel::kInfo, "shutting down");
    return;
  }
  log_(LogLevel::kInfo, "shutting down: " + text::counted(left, "job") + " may go on for " +
                            members::seconds_text(drain_) + "; a second signal stops at once");
}

void Shutdown::at_once() {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  log_(LogLevel::kWarning, "stopping at once: workers are not told");
}

void Shutdown::keep_jobs(TimeNs now) {
  if (state_ != State::kNotYet) return;
  state_ = State::kLinger;
  until_ = now + kLingerTime;
  log_(LogLevel::kInfo,
       "ending; jobs are kept: their workers wait for the daemon that follows, each a lease at most");
}

void Shutdown::turn(TimeNs now) {
  switch (state_) {
    case State::kNotYet:
    case State::kOver:
      return;
    case State::kDraining:
      return drain(now);
    case State::kFarewell:
      if (now < until_ && !(members_.settled() && cores_turned())) return;
      if (now >= until_) log_(LogLevel::kWarning, "a data core does not answer; stopping all the same");
      state_ = State::kLinger;
      until_ = now + kLingerTime;
      return;
    case State::kLinger:
      if (now >= until_) state_ = State::kOver;
      return;
  }
}

void Shutdown::drain(TimeNs now) {
  members::MembershipEngine& engine = members_.engine();
  if (engine.close(kShutdownReason) == 0) return begin_farewell(now);
  if (now < until_) return;
  for (const members::JobStatus& job : engine.status(now)) {
    log_(LogLevel::kWarning, "job '" + job.name + "' still has " + members::ranks_text(job.live) + " after " +
                                 members::seconds_text(drain_) + ": withdrawing it");
    (void)engine.withdraw(job.name, kShutdownReason);
  }
  begin_farewell(now);
}

void Shutdown::begin_farewell(TimeNs now) {
  members_.turn(now);  // publishes the empty rows and injects the farewells
  state_ = State::kFarewell;
  until_ = now + kMostFarewell;
  turns_.clear();
  for (std::size_t core = 0; core < plane_.cores(); ++core)
    turns_.push_back(plane_.statistics(core).turns.get());
}

// A turn that was under way may have looked at its rings already, the one after it has not.
bool Shutdown::cores_turned() const {
  for (std::size_t core = 0; core < turns_.size(); ++core) {
    if (plane_.statistics(core).turns.get() < turns_[core] + 2) return false;
  }
  return true;
}

ControlLoop::ControlLoop(Plane& plane, members::MembershipEngine engine, const LogSink& log, TimeNs drain,
                         TimeNs now)
    : members_(plane, std::move(engine), log, now),
      box_(plane, members_.watch(), log, now),
      shutdown_(plane, members_, log, drain),
      changed_(now) {}

TimeNs ControlLoop::turn(TimeNs now) {
  if (members_.turn(now)) changed_ = now;
  shutdown_.turn(now);
  if (now >= looked_ + kBoxLook) {
    box_.look(now);
    looked_ = now;
  }
  if (members_.crowded()) return 0;
  const bool brisk = !members_.settled() || ending() || now < changed_ + kBriskFor;
  return brisk ? kBriskTurn : kIdleTurn;
}

void ControlLoop::end(TimeNs now) {
  if (!ending()) {
    told_to_end_ = now;
    shutdown_.begin(now);
  } else if (now >= told_to_end_ + kOneSignal) {
    shutdown_.at_once();
  }
}

}  // namespace tally::daemon
