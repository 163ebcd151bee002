#include "percentiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tally {

double percentile(const std::vector<double>& sorted, double share) {
  if (sorted.empty()) return 0;
  // 0.99 * 100 is a little more than 99 in binary; the hundredth of 100 is not meant.
  const double rank = std::ceil(share * static_cast<double>(sorted.size()) - 1e-9);
  const auto index = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(index, sorted.size() - 1)];
}

TimeSummary summarise(std::vector<double> times) {
  if (times.empty()) return {};
  std::sort(times.begin(), times.end());
  const double sum = std::accumulate(times.begin(), times.end(), 0.0);
  return {.average = sum / static_cast<double>(times.size()),
          .least = times.front(),
          .p50 = percentile(times, 0.5),
          .p99 = percentile(times, 0.99),
          .p999 = percentile(times, 0.999),
          .most = times.back()};
}

}  // namespace tally
