#pragma once
// What both sessions say of the machine.

#include "load_options.h"
#include "load_report.h"

namespace tally::bench {

// Machine, options, and warnings about where the generator runs.
[[nodiscard]] LoadSetting common_setting(const LoadOptions& options, bool hugepages);

}  // namespace tally::bench
