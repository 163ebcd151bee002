#pragma once
// All ranks are there: which epoch they get. Either they all bring the same generation, which is adopted, or
// a new one begins; admission finds the window; the row goes to the cores.

#include <cstdint>

#include "box_state.h"
#include "job_membership.h"

namespace tally {

// Forming with nobody missing: makes the offer, or refuses or aborts with the reason in the text, or does
// nothing yet, because pools of lower priority are to make room first (preemption.h).
void make_offer(JobMembership& job, BoxState& box, TimeNs now);

// (Re)publishes the row of a term with the members' present bindings; returns the version that carries it.
std::uint64_t publish_row(JobMembership& job, BoxState& box, const Term& term);

// The cores use publication `version`: an offer it carries becomes the term, and the members who wait for it
// are told.
void tell_members(JobMembership& job, BoxState& box, std::uint64_t version, TimeNs now);

}  // namespace tally
