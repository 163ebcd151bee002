#pragma once
// When the next frames of an open load are due. Frames that could not be sent in time are caught up with for
// a while; what is older is given up and counted, so that a stall does not become a burst without end. Pure.

#include <algorithm>
#include <cstdint>

#include "tally/time.h"

namespace tally::bench {

class FramePacer {
 public:
  // rate: frames per second; 0: as many as anybody asks for.
  void start(double rate, TimeNs now) noexcept {
    *this = FramePacer();
    per_ns_ = rate / 1e9;
    start_ = now;
    most_behind_ = std::max(kLeastBehind, static_cast<std::uint64_t>(rate * kCatchUpSeconds));
  }
  // Frames that may leave at `now`, which does not go back.
  [[nodiscard]] std::uint64_t due(TimeNs now) noexcept {
    if (per_ns_ == 0) return UINT64_MAX;
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(now - start_) * per_ns_) + 1;
    if (wanted > done_ + most_behind_) {
      skipped_ += wanted - most_behind_ - done_;
      done_ = wanted - most_behind_;
    }
    return wanted - done_;
  }
  void sent(std::uint64_t frames) noexcept { done_ += frames; }  // at most what was due
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }

  static constexpr std::uint64_t kLeastBehind = 64;
  static constexpr double kCatchUpSeconds = 0.002;

 private:
  double per_ns_ = 0;
  TimeNs start_ = 0;
  std::uint64_t done_ = 0;  // sent or skipped
  std::uint64_t skipped_ = 0;
  std::uint64_t most_behind_ = 0;
};

}  // namespace tally::bench
