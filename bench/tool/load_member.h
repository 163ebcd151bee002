#pragma once
// One rank of the generator as control sees it: JOIN until the box says running, HEARTBEATs, LEAVE. Unlike a
// worker it never joins again: a figure that spans two epochs is none. Pure: datagrams and time in, datagrams
// out.

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "engine/datagram.h"
#include "engine/seat.h"
#include "kernels/kernels.h"
#include "tally/time.h"

namespace tally::bench {

class LoadMember {
 public:
  enum class State : std::uint8_t { kJoining, kRunning, kLeaving, kLeft, kFailed };

  // options.instance: random; unreachable_after: how long it tries to join, at least 3 s. kernels:
  // outlive it.
  LoadMember(engine::EngineOptions options, const kernels::Kernels& kernels)
      : seat_(std::move(options), kernels) {}

  // A datagram for this rank that is no RESULT; what does not concern it changes nothing.
  void receive(const engine::Datagram& datagram, TimeNs now);
  // When running: says so until the box has heard it, or for a while. All results are in at all ranks, so
  // there is no need for the barrier that workers make first.
  void leave(TimeNs now);
  // Writes what is due to `out` (kMaxDatagramBytes) and returns its length; 0: nothing is. next: one past the
  // newest chunk sent.
  [[nodiscard]] std::size_t transmit(std::span<std::byte> out, Chunk next, TimeNs now);

  [[nodiscard]] State state() const noexcept { return state_; }
  // Once running.
  [[nodiscard]] const engine::Membership& membership() const noexcept { return *seat_.membership(); }
  // What is missing, or why it failed; for people.
  [[nodiscard]] std::string why() const;

 private:
  void on_offer(const engine::Membership& offer, TimeNs now);
  void fail_with(std::string why) {
    state_ = State::kFailed;
    why_ = std::move(why);
  }

  engine::Seat seat_;
  State state_ = State::kJoining;
  bool answered_ = false;
  std::string why_{};
};

}  // namespace tally::bench
