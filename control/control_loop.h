#pragma once
// What the control thread does while the box runs. Pure: time comes in, the data plane is an interface, so
// the whole life of a daemon runs in a unit test. Owner: the control thread.

#include "box_watch.h"
#include "log.h"
#include "member_loop.h"
#include "membership.h"
#include "plane.h"
#include "shutdown.h"
#include "tally/time.h"

namespace tally {

class ControlLoop {
 public:
  // How long to wait between turns: while jobs change, and otherwise (an idle daemon costs little).
  static constexpr TimeNs kBriskTurn = kMillisecond;
  static constexpr TimeNs kIdleTurn = 5 * kMillisecond;
  static constexpr TimeNs kBriskFor = 100 * kMillisecond;

  // plane: outlives the loop. drain: Shutdown.
  ControlLoop(Plane& plane, MembershipEngine engine, const LogSink& log, TimeNs drain, TimeNs now);

  ControlLoop(const ControlLoop&) = delete;  // its parts refer to each other
  ControlLoop& operator=(const ControlLoop&) = delete;

  // One turn. Returns how long to wait before the next, unless done().
  TimeNs turn(TimeNs now);
  // SIGTERM, SIGINT: the first begins to drain, the second ends at once.
  void end(TimeNs now);
  [[nodiscard]] bool ending() const noexcept { return shutdown_.state() != Shutdown::State::kNotYet; }
  [[nodiscard]] bool done() const noexcept { return shutdown_.state() == Shutdown::State::kOver; }

  [[nodiscard]] MemberLoop& members() noexcept { return members_; }
  [[nodiscard]] const BoxWatch& box() const noexcept { return box_; }

 private:
  MemberLoop members_;
  BoxWatch box_;
  Shutdown shutdown_;
  TimeNs changed_ = 0;
  TimeNs looked_ = 0;
};

}  // namespace tally
