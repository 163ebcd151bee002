#pragma once
// The caps of running jobs in the shared region, from what they want now.

#include <span>

#include "box_state.h"
#include "membership.h"

namespace tally {

// Publishes the rows of the jobs whose cap changed by more than a little. Jobs that are not named want
// nothing; names of jobs that do not run or do not share slots are passed over.
void rebalance_shared(BoxState& box, std::span<const SharedDemand> demand);

}  // namespace tally
