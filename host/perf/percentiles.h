#pragma once
// What a set of measured times comes to.

#include <vector>

namespace tally {

struct TimeSummary {
  double average = 0, least = 0, p50 = 0, p99 = 0, p999 = 0, most = 0;
};

// The value that `share` (0..1] of `sorted` does not exceed: the nearest rank, no interpolation, so that it
// is a time that was measured. 0 when there is none.
[[nodiscard]] double percentile(const std::vector<double>& sorted, double share);

[[nodiscard]] TimeSummary summarise(std::vector<double> times);

}  // namespace tally
