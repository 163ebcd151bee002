#pragma once
// Whether options make sense, before anything is opened.

#include "tally/error.h"
#include "tally/worker.h"

namespace tally {

// The first rule broken, as a sentence with the value and what would be right; job and box must be set.
[[nodiscard]] Result<void> check_options(const WorkerOptions& options);

}  // namespace tally
