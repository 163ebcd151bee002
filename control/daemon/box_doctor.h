#pragma once
// What a box asks of its machine, for the doctor.

#include <vector>

#include "config/config.h"
#include "doctor/doctor.h"

namespace tally::daemon {

// Looks at the machine as it is now: some milliseconds, most of them the kernel's. Problems first.
[[nodiscard]] std::vector<doctor::Finding> examine_box(const config::Config& config);

}  // namespace tally::daemon
