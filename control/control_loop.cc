#include "control_loop.h"

#include <utility>

namespace tally {

ControlLoop::ControlLoop(Plane& plane, MembershipEngine engine, const LogSink& log, TimeNs drain, TimeNs now)
    : members_(plane, std::move(engine), log, now),
      box_(plane, log, now),
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
  if (ending()) {
    shutdown_.at_once();
  } else {
    shutdown_.begin(now);
  }
}

}  // namespace tally
