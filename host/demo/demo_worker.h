#pragma once
// One worker of the demo: sums its model's tensors with the other ranks, checks every sum, reports to the
// parent. Job, rank and the way to the box come from the environment, as for any program with libtally.

#include "demo_options.h"

namespace tally {

// Returns the exit code.
[[nodiscard]] int run_demo_worker(const DemoOptions& options);

}  // namespace tally
