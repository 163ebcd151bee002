#pragma once
// A pool job gets another window by the operator's will.

#include <cstdint>

#include "box_state.h"
#include "job_membership.h"
#include "tally/error.h"

namespace tally {

// As MembershipEngine::resize says.
[[nodiscard]] Result<void> resize_job(JobMembership& job, BoxState& box, std::uint32_t window, TimeNs now);

}  // namespace tally
