#include "planning/comeback.h"

#include <algorithm>
#include <bit>

namespace tally::planning {

std::uint64_t Comeback::look(TimeNs now, std::uint64_t left_out) {
  std::uint64_t due = 0;
  for (std::uint64_t rest = left_out | out_; rest != 0; rest &= rest - 1) {
    const int b = std::countr_zero(rest);
    const std::uint64_t bit = std::uint64_t{1} << b;
    Box& box = boxes_[static_cast<std::size_t>(b)];
    if ((left_out & bit) == 0) {
      box.back = now;
    } else if ((out_ & bit) == 0) {
      // It stayed for as long as was waited for it: as if it had never been lost.
      const bool stayed = box.back == 0 || now >= box.back + box.wait;
      box.wait = stayed ? kFirst : std::min(2 * box.wait, kRarest);
      box.due = now + box.wait;
      box.lost = now;
    } else if (now >= box.due) {
      due |= bit;
      box.due = now + box.wait;  // should nothing come of it
    }
  }
  out_ = left_out;
  return due;
}

void Comeback::seen(BoxIndex box, TimeNs now) {
  if (box >= kMaxPlanBoxes || (out_ >> box & 1U) == 0) return;
  Box& it = boxes_[box];
  const bool just_tried = it.back != 0 && now < it.back + kFirst;
  if (!just_tried) it.due = std::min(it.due, now);
}

}  // namespace tally::planning
