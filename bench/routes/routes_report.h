#pragma once
// What `make experiment ROUTES=1` leaves behind: tables for people and the figures for programs, of which tools/plot-bench
// draws a plot.

#include <string>
#include <vector>

#include "routes_sweep.h"

namespace tally::routes {

[[nodiscard]] std::string markdown_of(const std::vector<Done>& runs);
[[nodiscard]] std::string json_of(const std::vector<Done>& runs);
// Elements of sums, in all runs.
[[nodiscard]] std::uint64_t wrong_in(const std::vector<Done>& runs);

}  // namespace tally::routes
