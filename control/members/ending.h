#pragma once
// How an epoch ends for good: aborted with a reason, or left by everyone. Either way the row is cleared, the
// lines are freed, and the term is remembered for members who have not heard.

#include <cstdint>
#include <optional>
#include <string_view>

#include "members/box_state.h"
#include "members/job_membership.h"
#include "tally/error.h"

namespace tally::members {

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

// What silence does to a job.
//
// running     a silent rank aborts the job, which names it: a server too
// draining    it counts as having left: whoever is still here has its contributions already, and needs no
// server re-forming  as running: its generation cannot go on without it fresh       it loses its place, and
// forming waits for somebody else. (Also how the replayed JOIN of a dead
//             process that nobody here remembers heals: nothing follows it, so its lease runs out. If forming
//             was complete with it, that is the running job's case.)
// fresh, with ranks that bring a living generation from before control lost its state: those are refused when
//             the others did not come within a lease of the first. They cannot be aborted: nobody here knows
//             their cookies. Ranks that bring nothing wait for as long as they like.

void tick_job(JobMembership& job, BoxState& box, TimeNs now);
// When tick_job has something to do; kNever if never. Always later than the last tick_job.
[[nodiscard]] TimeNs deadline_of(const JobMembership& job) noexcept;

// A new epoch for a living generation: after the data plane lost its slots, or before its numbers have gone
// half way round within one epoch, or because its window changes.

// A hint to one member of the living term to join anew. The data plane answers a busy one by REJECT; an idle
// one would notice at its next heartbeat only.
void call_back(const JobMembership& job, BoxState& box, Rank rank);

// The row goes; every member that has not left is called back.
void begin_reforming(JobMembership& job, BoxState& box, TimeNs now);

// Once more those that have not come, as a hint may be lost.
void call_missing(const JobMembership& job, BoxState& box);

// A worker's next never-offered chunk. Begins a new epoch when the numbers have advanced 2^29: well before
// 2^30, where a packet of this epoch as old as half the number space would look new (docs/protocol.md, 12).
void note_progress(JobMembership& job, BoxState& box, Rank rank, Chunk next, TimeNs now);

// A pool job gets another window by the operator's will.

// As MembershipEngine::resize says.
[[nodiscard]] Result<void> resize_job(JobMembership& job, BoxState& box, std::uint32_t window, TimeNs now);

}  // namespace tally::members
