#pragma once
// Times in a log-linear histogram: 64 buckets for each power of two, so that a percentile is at most 1.6 %
// too high. Recording touches one counter. Owner: one thread.

#include <array>
#include <cstddef>
#include <cstdint>

#include "tally/time.h"

namespace tally::bench {

class LatencyHistogram {
 public:
  void record(TimeNs ns) noexcept;
  void clear() noexcept { *this = LatencyHistogram(); }

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] TimeNs max() const noexcept { return max_; }  // exact
  // The least time that `share` (0..1] of those recorded do not exceed, rounded up to the end of its bucket,
  // never above max(). 0 if nothing was recorded.
  [[nodiscard]] TimeNs percentile(double share) const noexcept;

 private:
  static constexpr unsigned kSubBits = 6;
  static constexpr std::size_t kSub = std::size_t{1} << kSubBits;
  static constexpr unsigned kMostBits = 40;  // 18 minutes; longer ones count as that
  static constexpr std::size_t kBuckets = (kMostBits - kSubBits + 1) * kSub;

  [[nodiscard]] static std::size_t bucket_of(TimeNs ns) noexcept;
  [[nodiscard]] static TimeNs last_of(std::size_t bucket) noexcept;

  std::array<std::uint64_t, kBuckets> buckets_{};
  std::uint64_t count_ = 0;
  TimeNs max_ = 0;
};

}  // namespace tally::bench
