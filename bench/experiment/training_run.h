#pragma once
// One run: jobs, box and servers in virtual time, from the first job's start to the last one's end.

#include "setting.h"

namespace tally::experiment {

// The same setting gives the same outcomes. Ends the program if anything is broken: a sum that is not exact
// is counted in Outcomes::wrong, everything else (a stuck run, an engine that closes) has no outcome.
[[nodiscard]] Outcomes run(const Setting& setting);

}  // namespace tally::experiment
