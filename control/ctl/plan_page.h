#pragma once
// Plans of jobs over several boxes as text for people: as tally-plan prints them, and what is known of plans in force.

#include <string>

#include "ctl/command.h"

namespace tally::ctl {

[[nodiscard]] std::string plan_page(const Json& answer);
[[nodiscard]] std::string plan_rate_page(const Json& answer);

}  // namespace tally::ctl
