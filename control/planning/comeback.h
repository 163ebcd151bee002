#pragma once
// When a box that a job's members lost is tried again. A trial costs an epoch: nothing, if the box is there, but a round
// trip; else a pause of the silence limit (docs/protocol_boxes.md, 17.3) before everybody goes on without it. So trials
// become rarer while they fail. Time is what the caller says. One thread.

#include <array>
#include <cstdint>

#include "tally/plan.h"
#include "tally/time.h"

namespace tally::planning {

class Comeback {
 public:
  static constexpr TimeNs kFirst = 10 * kSecond;
  static constexpr TimeNs kRarest = 600 * kSecond;

  // left_out: a bit for each of the job's boxes that plans do without by now. Returns which of them are to be taken
  // back at this moment; who does that says so here with the next call, by their absence.
  [[nodiscard]] std::uint64_t look(TimeNs now, std::uint64_t left_out);
  // Somebody has news of the box. If it is left out it is tried at once, unless it just was.
  void seen(BoxIndex box, TimeNs now);

 private:
  struct Box {
    TimeNs wait = kFirst;  // before the next trial, once it is lost
    TimeNs due = 0;        // while it is left out
    TimeNs back = 0;       // when it came back last; 0: never
    TimeNs lost = 0;       // when it was lost last
  };
  std::array<Box, kMaxPlanBoxes> boxes_{};
  std::uint64_t out_ = 0;
};

}  // namespace tally::planning
