#pragma once

#include <nlohmann/json.hpp>

#include "kernels/kernels.h"

namespace tally::bench {

// What packets of a job with shared slots cost beside the pool's, and the goal of the swap path. Prints.
[[nodiscard]] nlohmann::json run_shared(const kernels::Kernels& kernels);

}  // namespace tally::bench
