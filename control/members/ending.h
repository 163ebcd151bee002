#pragma once
// How an epoch ends for good: aborted with a reason, or left by everyone. Either way the row is cleared, the
// lines are freed, and the term is remembered for members who have not heard.

#include <optional>
#include <string_view>

#include "box_state.h"
#include "job_membership.h"

namespace tally {

// Tells every member that has not left, `except` the one that knows. Members that may not know the term's
// epoch also get the text as the answer to their newest JOIN; servers only where no term was alive.
void abort_job(JobMembership& job, BoxState& box, std::string_view text, std::optional<Rank> except = {});

// Every rank has left, or fell silent after the first LEAVE. Servers do not leave: they are called back.
void end_job(JobMembership& job, BoxState& box);

// What was offered, if anything, is taken back; nobody had been told.
void cancel_offer(JobMembership& job, BoxState& box);

// Fresh forming: answers the workers of `which` with a refusal and frees their places. Servers
// go on waiting.
void refuse_waiting(JobMembership& job, BoxState& box, std::uint64_t which, std::string_view text);

}  // namespace tally
