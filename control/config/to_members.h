#pragma once
// The configuration as the membership engine takes it.

#include "config/config.h"
#include "members/job_config.h"
#include "members/membership.h"

namespace tally::config {

[[nodiscard]] members::JobConfig member_job(const JobSection& job);
[[nodiscard]] members::SessionConfig member_session(const JobSection& job);
// Of whatever dialect.
[[nodiscard]] Result<JobId> declare(const JobSection& job, members::MembershipEngine& engine);
[[nodiscard]] members::MembershipOptions member_options(const Config& config);

// box.mac, or the one made of the instance name: 02 and 40 bits of its hash.
[[nodiscard]] Mac box_mac(const Config& config);

}  // namespace tally::config
