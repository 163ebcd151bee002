#pragma once
// What the control thread does while the box runs. Pure: time comes in, the data plane is an interface, so
// the whole life of a daemon runs in a unit test. Owner: the control thread.

#include <cstdint>
#include <vector>

#include "daemon/log.h"
#include "daemon/member_loop.h"
#include "daemon/plane.h"
#include "daemon/watch.h"
#include "members/membership.h"
#include "tally/time.h"

namespace tally::daemon {

// How the daemon ends: nothing new is admitted, running jobs may finish, those that do not are withdrawn, the
// farewells leave, then the cores stop. Pure. Owner: the control thread.

inline constexpr std::string_view kShutdownReason = "the box is shutting down";

class Shutdown {
 public:
  enum class State : std::uint8_t {
    kNotYet,
    kDraining,  // running jobs go on until their workers leave or the time is over
    kFarewell,  // all jobs are withdrawn; ABORTs are on their way through the cores
    kLinger,    // they are in the ports' rings; receivers need a moment before the ports close
    kOver,
  };

  // drain: how long running jobs may go on.
  Shutdown(Plane& plane, MemberLoop& members, LogSink log, TimeNs drain)
      : plane_(plane), members_(members), log_(std::move(log)), drain_(drain) {}

  void begin(TimeNs now);
  void at_once();
  // Nobody is told: workers miss the box for a moment and come back to the one that follows. Answers of the
  // control interface have time to leave.
  void keep_jobs(TimeNs now);
  // After a turn of the member loop.
  void turn(TimeNs now);

  [[nodiscard]] State state() const noexcept { return state_; }

 private:
  // What is under way must not hold a stuck daemon up for ever.
  static constexpr TimeNs kMostFarewell = kSecond;
  // A worker sleeps at most 1 ms, and shares its CPU with others.
  static constexpr TimeNs kLingerTime = 50 * kMillisecond;

  void drain(TimeNs now);
  void begin_farewell(TimeNs now);
  [[nodiscard]] bool cores_turned() const;

  Plane& plane_;
  MemberLoop& members_;
  LogSink log_;
  TimeNs drain_;
  State state_ = State::kNotYet;
  TimeNs until_ = 0;
  std::vector<std::uint64_t> turns_{};  // of each core, when the last farewell had been injected
};

class ControlLoop {
 public:
  // How long to wait between turns: while jobs change, and otherwise (an idle daemon costs little).
  static constexpr TimeNs kBriskTurn = kMillisecond;
  static constexpr TimeNs kIdleTurn = 5 * kMillisecond;
  static constexpr TimeNs kBriskFor = 100 * kMillisecond;

  // plane: outlives the loop. drain: Shutdown.
  ControlLoop(Plane& plane, members::MembershipEngine engine, const LogSink& log, TimeNs drain, TimeNs now);

  ControlLoop(const ControlLoop&) = delete;  // its parts refer to each other
  ControlLoop& operator=(const ControlLoop&) = delete;

  // One turn. Returns how long to wait before the next, unless done().
  TimeNs turn(TimeNs now);
  // SIGTERM, SIGINT: the first begins to drain, the second ends at once, unless it belongs to the first: who ends a
  // process and its group (timeout, a shell, a container's init) sends two.
  void end(TimeNs now);
  static constexpr TimeNs kOneSignal = 500 * kMillisecond;
  // SIGUSR2 and the restart of tallyctl: jobs are kept for the daemon that follows.
  void end_keeping_jobs(TimeNs now) { shutdown_.keep_jobs(now); }
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
  TimeNs told_to_end_ = 0;
};

}  // namespace tally::daemon
