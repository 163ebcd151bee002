#include "memif_link.h"

#include <chrono>
#include <thread>

#include "tally/mix64.h"

namespace tally {
namespace {

// Between two attempts: a daemon that comes back is found soon, and eight waiting workers cost nothing.
constexpr TimeNs kLeastPause = 50 * kMillisecond;
constexpr TimeNs kJitter = 50 * kMillisecond;
// The introduction takes some ten messages; a daemon that falls silent in the middle is called again. One
// that has not even said HELLO is waited for without end: the driver of 22.11 at its end, when it accepts a
// connection whose other side has gone, fails to send, frees the record but leaves the descriptor with EAL,
// and EAL's interrupt thread then ends the process ('Error adding fd'). A stopped daemon must survive its
// waking up.
constexpr TimeNs kIntroduction = 2 * kSecond;
// For the same reason we do not leave without a HELLO at once: so many milliseconds.
constexpr int kFarewellTries = 100;
constexpr TimeNs kMessagePeriod = 200 * kMicrosecond;
// How soon a daemon's end is seen while packets flow: one recvmsg() per period.
constexpr TimeNs kWatchPeriod = kMillisecond;

}  // namespace

Result<std::unique_ptr<MemifLink>> MemifLink::create(MemifRelay& relay, Port& port, std::uint64_t random) {
  std::unique_ptr<MemifLink> link(new MemifLink(relay, port, random));
  auto fence = InterruptFence::create();
  if (!fence) return tl::unexpected(fence.error());
  link->fence_ = std::move(*fence);
  return link;
}

MemifLink::~MemifLink() {
  for (int i = 0; i < kFarewellTries && state_ == State::kJoining && !relay_.driver_involved(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!relay_.pump()) break;
  }
  if (fence_ != nullptr) fence_->wait();
}

TimeNs MemifLink::pause() noexcept {
  random_ = mix64(random_ + 1);
  return kLeastPause + random_ % kJitter;
}

void MemifLink::lost(TimeNs now) noexcept {
  relay_.hang_up();
  if (!relay_.driver_involved()) {
    state_ = State::kDown;
    due_ = now + pause();
    return;
  }
  state_ = State::kEmptying;
  fence_->raise();
  due_ = now;
}

void MemifLink::restart(TimeNs now) {
  // Stops the port on this thread: memory is unmapped here and nowhere else. A failure leaves the driver
  // without a connection to us, and the next turn comes back here.
  if (!port_.restart()) {
    due_ = now + pause();
    return;
  }
  relay_.new_driver();
  state_ = State::kDown;
  due_ = now + pause();
}

void MemifLink::step(TimeNs now) {
  if (now < due_) return;
  switch (state_) {
    case State::kDown:
      if (!relay_.call_daemon()) {
        due_ = now + pause();
        return;
      }
      state_ = State::kJoining;
      give_up_ = now + kIntroduction;
      [[fallthrough]];
    case State::kJoining:
      due_ = now + kMessagePeriod;
      if (!relay_.pump() || (relay_.driver_involved() && now >= give_up_)) return lost(now);
      if (!relay_.driver_involved()) give_up_ = now + kIntroduction;
      if (!relay_.introduced() || !port_.link_up()) return;
      state_ = State::kUp;
      ++connections_;
      return;
    case State::kUp:
      due_ = now + kWatchPeriod;
      if (!relay_.pump()) lost(now);
      return;
    case State::kEmptying:
      due_ = now + kMessagePeriod;
      if (fence_->passed()) restart(now);
      return;
  }
}

}  // namespace tally
