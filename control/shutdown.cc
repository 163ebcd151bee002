#include "shutdown.h"

#include <string>

#include "texts.h"

namespace tally {

void Shutdown::begin(TimeNs now) {
  if (state_ != State::kNotYet) return;
  state_ = State::kDraining;
  until_ = now + drain_;
  members_.look(now);  // sessions end now, and their status is what will be printed of them
  const std::size_t left = members_.engine().close(kShutdownReason);
  if (left == 0) {
    log_(LogLevel::kInfo, "shutting down");
    return;
  }
  log_(LogLevel::kInfo, "shutting down: " + std::to_string(left) + (left == 1 ? " job" : " jobs") +
                            " may go on for " + seconds_text(drain_) + "; a second signal stops at once");
}

void Shutdown::at_once() {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  log_(LogLevel::kWarning, "stopping at once: workers are not told");
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
  MembershipEngine& engine = members_.engine();
  if (engine.close(kShutdownReason) == 0) return begin_farewell(now);
  if (now < until_) return;
  for (const JobStatus& job : engine.status(now)) {
    log_(LogLevel::kWarning, "job '" + job.name + "' still has " + ranks_text(job.live) + " after " +
                                 seconds_text(drain_) + ": withdrawing it");
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

}  // namespace tally
