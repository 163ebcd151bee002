#pragma once
// What a port carries without a box: --ceiling.

#include <string>

#include "load_options.h"
#include "tally/error.h"

namespace tally::bench {

// Packets per second. text: a number as parse_per_s() takes it; or the --json file of a run with --echo,
// whose frames were as long as those of `options` will be: then the most that came back in one of its runs.
// Errors name
// --ceiling.
[[nodiscard]] Result<double> ceiling_of(const std::string& text, const LoadOptions& options);

}  // namespace tally::bench
