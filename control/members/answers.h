#pragma once
// The three answers to a JOIN.

#include <cstdint>
#include <string_view>

#include "box_state.h"
#include "job_membership.h"

namespace tally {

// To the rank's binding with the nonce of its newest JOIN: the job's term is in force.
void answer_running(const JobMembership& job, BoxState& box, Rank rank);
// `missing`: the workers whose JOIN forming waits for; 0 also while it waits for servers only.
void answer_forming(const JobMembership& job, BoxState& box, std::uint64_t nonce, std::uint64_t missing,
                    const Binding& to);
// Final: the worker gives up with this text.
void answer_refused(BoxState& box, std::uint64_t nonce, std::string_view text, const Binding& to);

}  // namespace tally
