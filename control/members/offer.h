#pragma once
// All ranks are there: which epoch they get. Either they all bring the same generation, which is adopted, or
// a new one begins; admission finds the window; the row goes to the cores.

#include <cstdint>

#include "members/box_state.h"
#include "members/job_membership.h"
#include "members/room.h"

namespace tally::members {

// Forming with nobody missing: makes the offer, or refuses or aborts with the reason in the text, or does
// nothing yet, because pools of lower priority are to make room first (offer.h).
void make_offer(JobMembership& job, BoxState& box, TimeNs now);

// (Re)publishes the row of a term with the members' present bindings; returns the version that carries it.
std::uint64_t publish_row(JobMembership& job, BoxState& box, const Term& term);

// The cores use publication `version`: an offer it carries becomes the term, and the members who wait for it
// are told.
void tell_members(JobMembership& job, BoxState& box, std::uint64_t version, TimeNs now);

// Slot memory moves from running pools to jobs of higher priority that form, and comes back: each time by a
// new epoch of the pool's generation with another window (docs/scheduling.md, Taking memory from pools).

// A pool that was shrunk runs at least so long before it is called back to grow.
inline constexpr TimeNs kGrowAfter = 10 * kSecond;

// A job of higher priority has all its ranks and waits for slot memory: nothing of what comes free is for
// `job`.
[[nodiscard]] bool outranked(const JobMembership& job, const BoxState& box);

// All ranks of `job` are there. True: it must wait, because pools of lower priority are to give way for it;
// those that run are called back by this. False: admission has the best answer there is.
[[nodiscard]] bool must_wait(const JobMembership& job, BoxState& box, const Wish& wish, TimeNs now);

// After any change: jobs that wait are tried again if lines came free or a pool can be called back since.
void settle_slots(BoxState& box, TimeNs now);

// Calls the shrunk pool back whose turn it is to grow, if its time has come.
void grow_pools(BoxState& box, TimeNs now);

}  // namespace tally::members
