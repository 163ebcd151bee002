#pragma once
// The configuration as the membership engine takes it.

#include "config.h"
#include "job_config.h"
#include "membership.h"

namespace tally {

[[nodiscard]] JobConfig member_job(const JobSection& job);
[[nodiscard]] SessionConfig member_session(const JobSection& job);
// Of whatever dialect.
[[nodiscard]] Result<JobId> declare(const JobSection& job, MembershipEngine& engine);
[[nodiscard]] MembershipOptions member_options(const Config& config);

// box.mac, or the one made of the instance name: 02 and 40 bits of its hash.
[[nodiscard]] Mac box_mac(const Config& config);

}  // namespace tally
