#pragma once
// Runs as tables and as JSON.

#include <string>
#include <vector>

#include "rounds_sweep.h"

namespace tally::rounds {

// Rounds per second of `run` over those of the same with everything cold; 0: that was not run.
[[nodiscard]] double gain_of(const std::vector<Done>& runs, const Done& run);
[[nodiscard]] std::uint64_t wrong_in(const std::vector<Done>& runs);
[[nodiscard]] std::string markdown_of(const std::vector<Done>& runs);
[[nodiscard]] std::string json_of(const std::vector<Done>& runs);

}  // namespace tally::rounds
