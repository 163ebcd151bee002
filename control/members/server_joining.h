#pragma once
// What becomes of the JOIN of an external server whose job, token and index are right.
//
// A server has nothing that its job cannot go on without: the workers offer again what it forgets. So another
// process takes its place at once where the same binding shows that the former one is gone, in the present
// epoch. (The replayed JOIN of a process that nobody here remembers does so too, and changes nothing but the
// instance that is noted: the answer goes to the binding of the one that lives, which does not know the nonce
// and whose next JOIN is as good.) From elsewhere it waits: two processes must not both hold sums of a chunk.

#include "box_state.h"
#include "control_packet.h"
#include "job_membership.h"

namespace tally {

// The job's leases must have been ticked to `now`, and the JOIN is newer than all of its process. Counts the
// packet as accepted or under one drop reason.
void handle_server_join(JobMembership& job, BoxState& box, const JoinRequest& join, const Binding& source,
                        TimeNs now);

}  // namespace tally
