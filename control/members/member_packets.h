#pragma once
// LEAVE, HEARTBEAT and ABORT of a member.

#include "members/box_state.h"
#include "members/control_packet.h"
#include "members/job_membership.h"

namespace tally::members {

// The job's leases must have been ticked to `now`. Counts the packet as accepted or under one drop reason.
void handle_member_packet(JobMembership& job, BoxState& box, const ControlPacket& packet,
                          const jobs::Binding& source, TimeNs now);

// Counts `why` and answers by REJECT, within the rate limit.
void reject(BoxState& box, const Header& received, const jobs::Binding& source, TimeNs now,
            MembershipDrop why);

}  // namespace tally::members
