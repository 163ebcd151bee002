#pragma once
// How the daemon ends: nothing new is admitted, running jobs may finish, those that do not are withdrawn, the
// farewells leave, then the cores stop. Pure. Owner: the control thread.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "log.h"
#include "member_loop.h"
#include "plane.h"
#include "tally/time.h"

namespace tally {

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

}  // namespace tally
