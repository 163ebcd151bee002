#pragma once
// The two things that tally-bench does, from its options to its figures.

#include <atomic>
#include <functional>

#include "load_options.h"
#include "load_report.h"
#include "step_profile.h"
#include "tally/error.h"

namespace tally::bench {

// Told once before the first run, and of each run when it has ended; trials of a search too.
struct LoadListener {
  std::function<void(const LoadSetting&)> begin{};
  std::function<void(const LoadFigures&)> run{};
  std::function<void(const StepFigures&)> steps{};  // once, if the options ask for a profile
};

enum class LoadOutcome : std::uint8_t {
  kGood,
  kNoRate,     // the search found none at which nothing was late
  kDisturbed,  // it could not know: others had the generator's CPU again and again
};

// What both say of the machine: options, and warnings about where the generator runs.
[[nodiscard]] LoadSetting common_setting(const LoadOptions& options, bool hugepages);

// Against a running tallyd. interrupted: any thread may set it; the session then ends soon with an error.
[[nodiscard]] Result<LoadOutcome> measure_box(const LoadOptions& options, const LoadListener& listener,
                                              const std::atomic<bool>& interrupted);

// The data plane in this thread, over the in-memory port.
[[nodiscard]] Result<LoadOutcome> measure_memory(const LoadOptions& options, const LoadListener& listener,
                                                 const std::atomic<bool>& interrupted);

}  // namespace tally::bench
