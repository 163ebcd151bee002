#pragma once
// Whether a JOIN may ask at all: job, token, world and rank.

#include <optional>
#include <string>

#include "control_packet.h"
#include "job_membership.h"

namespace tally {

struct Objection {
  MembershipDrop drop{};
  std::string text{};  // for JOINED(refused)
};

// `job`: what the JOIN names, nullptr if nothing of that name is declared.
[[nodiscard]] std::optional<Objection> objection_to(const JobMembership* job, const JoinRequest& join);

}  // namespace tally
