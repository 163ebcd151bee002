#pragma once
// Sessions of a configuration that was read again, on the box as it runs: its addresses, its memory and its
// ports' mtu change with a restart only, whatever that configuration says of them. Pure.

#include <vector>

#include "config.h"
#include "reload_plan.h"
#include "tally/error.h"

namespace tally {

// Whether packets of the session would be served. The first reason why not, for a person; `where` names the
// session. `running`: what is in force.
[[nodiscard]] Result<void> serves(const Config& running, const JobSection& session);

struct Replacements {
  std::vector<ReloadPlan::Again> good{};
  std::vector<Error> refused{};  // one for each session that has to stay as it runs
};

// Which of plan.again can take the place of the session of its name. One that stays may have the addresses
// of a member that another was to get.
[[nodiscard]] Replacements replacements(const Config& running, std::vector<ReloadPlan::Again> wanted);

}  // namespace tally
