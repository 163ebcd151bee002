#pragma once
// What judging the JOIN of a worker and that of a server have in common.

#include <string>

#include "box_state.h"
#include "control_packet.h"
#include "job_membership.h"

namespace tally {

[[nodiscard]] inline bool same_instance(const MemberState& m, const JoinRequest& join) noexcept {
  return m.instance == join.fixed.instance.host();
}

// Whether this JOIN, or a later one of its process, was taken before. Attempts count up from any start and
// may wrap.
[[nodiscard]] bool outdated(const JoinRequest& join, const MemberState& m) noexcept;

// Final, within the rate limit; counts `why`.
void refuse(BoxState& box, const JoinRequest& join, const Binding& source, TimeNs now, MembershipDrop why,
            const std::string& text);

// The place may become free, or be proven taken, within a lease: the sender keeps asking, nothing is noted.
void let_wait(const JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source);

// Forming: the rank joins, or is still there. With nobody missing an offer is made.
void take_place(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                TimeNs now);

// The newest JOIN gets the term's JOINED; if the member moved, when the cores know where it is.
void answer_member(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                   TimeNs now);

}  // namespace tally
