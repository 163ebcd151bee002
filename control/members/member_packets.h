#pragma once
// LEAVE, HEARTBEAT and ABORT of a member.

#include "box_state.h"
#include "control_packet.h"
#include "job_membership.h"

namespace tally {

// The job's leases must have been ticked to `now`. Counts the packet as accepted or under one drop reason.
void handle_member_packet(JobMembership& job, BoxState& box, const ControlPacket& packet,
                          const Binding& source, TimeNs now);

// Counts `why` and answers by REJECT, within the rate limit.
void reject(BoxState& box, const Header& received, const Binding& source, TimeNs now, MembershipDrop why);

}  // namespace tally
