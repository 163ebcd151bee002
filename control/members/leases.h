#pragma once
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

#include "box_state.h"
#include "job_membership.h"

namespace tally {

void tick_job(JobMembership& job, BoxState& box, TimeNs now);
// When tick_job has something to do; kNever if never. Always later than the last tick_job.
[[nodiscard]] TimeNs deadline_of(const JobMembership& job) noexcept;

}  // namespace tally
