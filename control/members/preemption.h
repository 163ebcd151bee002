#pragma once
// Slot memory moves from running pools to jobs of higher priority that form, and comes back: each time by a
// new epoch of the pool's generation with another window (docs/scheduling.md, Taking memory from pools).

#include <cstdint>

#include "admission.h"
#include "box_state.h"
#include "job_membership.h"

namespace tally {

// A pool that was shrunk runs at least so long before it is called back to grow.
inline constexpr TimeNs kGrowAfter = 10 * kSecond;

// A job of higher priority has all its ranks and waits for slot memory: nothing of what comes free is for
// `job`.
[[nodiscard]] bool outranked(const JobMembership& job, const BoxState& box);

// All ranks of `job` are there. True: it must wait, because pools of lower priority are to give way for it;
// those that run are called back by this. False: admission has the best answer there is.
[[nodiscard]] bool must_wait(const JobMembership& job, BoxState& box, const Wish& wish, TimeNs now);

// A job that has all its ranks and waits for slot memory; nullptr: none does.
[[nodiscard]] const JobMembership* awaits_slots(const BoxState& box);

// After any change: jobs that wait are tried again if lines came free or a pool can be called back since.
void settle_slots(BoxState& box, TimeNs now);

// Calls the shrunk pool back whose turn it is to grow, if its time has come.
void grow_pools(BoxState& box, TimeNs now);

}  // namespace tally
