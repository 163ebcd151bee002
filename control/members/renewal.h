#pragma once
// A new epoch for a living generation: after the data plane lost its slots, or before its numbers have gone
// half way round within one epoch, or because its window changes.

#include "box_state.h"
#include "job_membership.h"

namespace tally {

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

}  // namespace tally
