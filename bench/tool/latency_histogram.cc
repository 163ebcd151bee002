#include "latency_histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tally::bench {

std::size_t LatencyHistogram::bucket_of(TimeNs ns) noexcept {
  if (ns < kSub) return static_cast<std::size_t>(ns);
  ns = std::min(ns, (TimeNs{1} << kMostBits) - 1);
  const auto shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - kSubBits;
  return (shift + 1) * kSub + static_cast<std::size_t>((ns >> shift) - kSub);
}

TimeNs LatencyHistogram::last_of(std::size_t bucket) noexcept {
  if (bucket < kSub) return bucket;
  const std::size_t shift = bucket / kSub - 1;
  return (TimeNs{kSub + bucket % kSub + 1} << shift) - 1;
}

void LatencyHistogram::record(TimeNs ns) noexcept {
  ++buckets_[bucket_of(ns)];
  ++count_;
  max_ = std::max(max_, ns);
}

TimeNs LatencyHistogram::percentile(double share) const noexcept {
  if (count_ == 0) return 0;
  const auto wanted = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen >= std::max<std::uint64_t>(wanted, 1)) return std::min(last_of(i), max_);
  }
  return max_;
}

}  // namespace tally::bench
