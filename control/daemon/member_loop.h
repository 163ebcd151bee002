#pragma once
// Membership and data cores brought together, in the order that membership.h asks for. Owner: the control
// thread.

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/log.h"
#include "daemon/plane.h"
#include "daemon/watch.h"
#include "members/membership.h"

namespace tally::daemon {

class MemberLoop {
 public:
  // plane: outlives the loop.
  MemberLoop(Plane& plane, members::MembershipEngine engine, LogSink log, TimeNs now);

  // Does all there is to do now. True: something about a job changed or is about to; false: at most
  // heartbeats.
  bool turn(TimeNs now);

  // Every publication is in force on every core, so nobody waits for an answer that depends on one.
  [[nodiscard]] bool settled() const noexcept { return quiesced_ == published_; }

  // The last turn left control packets where they were: the next one is due at once.
  [[nodiscard]] bool crowded() const noexcept { return crowded_; }

  [[nodiscard]] members::MembershipEngine& engine() noexcept { return engine_; }
  [[nodiscard]] const members::MembershipEngine& engine() const noexcept { return engine_; }
  [[nodiscard]] const JobWatch& watch() const noexcept { return watch_; }
  // Brings watch() up to date with what changed; with leases and times as they are now, of all jobs.
  void look(TimeNs now);
  void look_at_all(TimeNs now);
  // Answers that found no mbuf or a full ring.
  [[nodiscard]] std::uint64_t unsent() const noexcept { return unsent_; }

 private:
  // A turn that comes so long after the last one: the thread was starved or stopped, and the queues are old.
  static constexpr TimeNs kLate = 50 * kMillisecond;
  static constexpr TimeNs kRebalance = 50 * kMillisecond;
  static constexpr std::size_t kMostPunts = 32;  // of a turn, so that signals and timers get their own

  bool take_punts(std::optional<io::Punt> punt, TimeNs now);
  void take_event(const pipeline::Event& event, TimeNs now);
  bool publish();
  void rebalance(TimeNs now);
  bool take_quiesced(TimeNs now);
  bool send_answers(TimeNs now);
  bool inject(const members::Outgoing& answer, std::span<const std::byte> datagram);
  void log_refusal(std::span<const std::byte> datagram, const jobs::Binding& to, TimeNs now);

  Plane& plane_;
  members::MembershipEngine engine_;
  LogSink log_;
  JobWatch watch_;
  ShareWatch shares_;
  LogLimit refusals_{8, kSecond};
  LogLimit poisoned_{4, 10 * kSecond};
  TimeNs turned_;
  TimeNs rebalanced_ = 0;
  std::uint64_t published_ = 0;
  std::uint64_t quiesced_ = 0;
  std::uint64_t unsent_ = 0;
  bool crowded_ = false;
  std::array<std::byte, members::kMaxMembershipBytes> buffer_{};
};

}  // namespace tally::daemon
