#pragma once
// What a desk of plans has, as the control interface shows it.

#include <string>
#include <vector>

#include "api/plan_status.h"
#include "planning/desk.h"

namespace tally::daemon {

// file: of the cluster; empty: none. own: the box's addresses.
[[nodiscard]] api::PlanStatus plan_status(const planning::Desk& desk, const std::string& file,
                                          const std::vector<Ipv6>& own);

}  // namespace tally::daemon
