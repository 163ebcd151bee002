#pragma once
// Slot memory for a job that forms.

#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "box_state.h"
#include "job_membership.h"

namespace tally {

// What a job that forms would like.
struct Wish {
  std::uint16_t elements = 0;
  std::uint32_t window = 0;
  std::uint32_t largest_window = 0;  // of a generation that goes on; 0: the window granted will be it
  bool grows = false;  // after it was shrunk: at the upper end, so that what is free stays in one piece for
                       // the other pools that lie at the lower end since they were shrunk
  bool moves = false;  // to lower lines, also where the present ones fit exactly
};

// Holds the lines of the job's own for the largest power of two <= wish.window that fits, and its quota of
// the shared slots; returns the window, or why there is none, with the numbers. A range that fits exactly
// stays, unless the wish says that it moves; otherwise what the job held is given back first, so the answer
// is never worse than before. A ledger that is held is to be zeroed before the next table is in force, also
// where the job had it already.
[[nodiscard]] tl::expected<std::uint32_t, std::string> admit(JobMembership& job, BoxState& box,
                                                             const Wish& wish);
// Why the shared region has no place for the job; empty: it has, or the job does not share slots.
[[nodiscard]] std::string objection(const JobMembership& job, const BoxState& box, const Wish& wish);
// Lines of its own that the job needs for such a window.
[[nodiscard]] std::uint32_t lines_for(const JobMembership& job, const BoxState& box, const Wish& wish,
                                      std::uint32_t window);
// Gives all of it back; the cores zero the lines before the next table is in force.
void release_slots(JobMembership& job, BoxState& box);

}  // namespace tally
