#pragma once
// Slot memory for a job that forms.

#include <cstdint>
#include <string>

#include "box_state.h"
#include "job_membership.h"

namespace tally {

// Holds lines for the largest power of two <= wish that fits and returns it; 0 if not even the
// smallest fits. A range that fits exactly stays; otherwise what the job held is given back first, so the
// answer is never worse than before.
[[nodiscard]] std::uint32_t reserve_slots(JobMembership& job, BoxState& box, std::uint32_t wish,
                                          std::uint16_t elements);
// Gives them back; the cores zero them before the next table is in force.
void release_slots(JobMembership& job, BoxState& box);

// Why reserve_slots returned 0, with the numbers.
[[nodiscard]] std::string admission_text(const JobMembership& job, const BoxState& box,
                                         std::uint16_t elements);

}  // namespace tally
