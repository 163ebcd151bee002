#pragma once
// What becomes of a JOIN whose job, token, world and rank are right.

#include <optional>
#include <string>

#include "members/box_state.h"
#include "members/control_packet.h"
#include "members/job_membership.h"

namespace tally::members {

// The job's leases must have been ticked to `now`. Counts the packet as accepted or under one drop reason.
void handle_join(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
                 TimeNs now);

// What judging the JOIN of a worker and that of a server have in common.

[[nodiscard]] inline bool same_instance(const MemberState& m, const JoinRequest& join) noexcept {
  return m.instance == join.fixed.instance.host();
}

// Whether this JOIN, or a later one of its process, was taken before. Attempts count up from any start and
// may wrap.
[[nodiscard]] bool outdated(const JoinRequest& join, const MemberState& m) noexcept;

// Final, within the rate limit; counts `why`.
void refuse(BoxState& box, const JoinRequest& join, const jobs::Binding& source, TimeNs now,
            MembershipDrop why, const std::string& text);

// The place may become free, or be proven taken, within a lease: the sender keeps asking, nothing is noted.
void let_wait(const JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source);

// Forming: the rank joins, or is still there. With nobody missing an offer is made.
void take_place(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
                TimeNs now);

// The newest JOIN gets the term's JOINED; if the member moved, when the cores know where it is.
void answer_member(JobMembership& job, BoxState& box, const JoinRequest& join, const jobs::Binding& source,
                   TimeNs now);

// What becomes of the JOIN of an external server whose job, token and index are right.
//
// A server has nothing that its job cannot go on without: the workers offer again what it forgets. So another
// process takes its place at once where the same binding shows that the former one is gone, in the present
// epoch. (The replayed JOIN of a process that nobody here remembers does so too, and changes nothing but the
// instance that is noted: the answer goes to the binding of the one that lives, which does not know the nonce
// and whose next JOIN is as good.) From elsewhere it waits: two processes must not both hold sums of a chunk.

// The job's leases must have been ticked to `now`, and the JOIN is newer than all of its process. Counts the
// packet as accepted or under one drop reason.
void handle_server_join(JobMembership& job, BoxState& box, const JoinRequest& join,
                        const jobs::Binding& source, TimeNs now);

// Whether a JOIN may ask at all: job, token, world and rank.

struct Objection {
  MembershipDrop drop{};
  std::string text{};  // for JOINED(refused)
};

// `job`: what the JOIN names, nullptr if nothing of that name is declared.
[[nodiscard]] std::optional<Objection> objection_to(const JobMembership* job, const JoinRequest& join);

}  // namespace tally::members
