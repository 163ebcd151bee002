#pragma once
// What becomes of a JOIN whose job, token, world and rank are right.

#include "box_state.h"
#include "control_packet.h"
#include "job_membership.h"

namespace tally {

// The job's leases must have been ticked to `now`. Counts the packet as accepted or under one drop reason.
void handle_join(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                 TimeNs now);

}  // namespace tally
