#pragma once
// Whether options make sense, before anything is opened.

#include <string_view>
#include <vector>

#include "tally/error.h"
#include "tally/worker.h"

namespace tally {

// The first rule broken, as a sentence with the value and what would be right; job and box must be set.
[[nodiscard]] Result<void> check_options(const WorkerOptions& options);

// The boxes of WorkerOptions::box, one at least; they view `text`.
[[nodiscard]] std::vector<std::string_view> boxes_named(std::string_view text);

}  // namespace tally
