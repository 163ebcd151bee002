#include "engine/rto.h"

namespace tally::engine {

// 1 us << 20 is beyond the ceiling, and 1 s << 20 still far from overflow.
constexpr std::uint32_t kMaxLevel = 20;

void RoundTrip::sample(TimeNs rtt) noexcept {
  least_ = std::min(least_, rtt);
  if (++count_ == kLeastOf) {
    least_before_ = least_;
    least_ = kNever;
    count_ = 0;
  }
  if (!sampled_) {  // RFC 6298, 2.2
    smoothed_ = rtt;
    varies_ = rtt / 2;
    sampled_ = true;
    return;
  }
  // 2.3: beta = 1/4, alpha = 1/8
  const TimeNs deviation = smoothed_ > rtt ? smoothed_ - rtt : rtt - smoothed_;
  varies_ = varies_ - varies_ / 4 + deviation / 4;
  smoothed_ = smoothed_ - smoothed_ / 8 + rtt / 8;
}

void Rto::sample(TimeNs rtt) noexcept {
  path_.sample(rtt);
  newest_ = rtt;
  level_ = 0;
  without_sample_ = 0;
  // RFC 6298's G. Where a queue of our own makes every sample the same, RTTVAR is nothing, and one packet more
  // in the queue, of somebody's repair, would let all that follow run out, each of which is one packet more.
  base_ = std::min(path_.smoothed() + std::max(4 * path_.varies(), floor_), kRtoCeiling);
}

void Rto::made_by(bool served, std::optional<TimeNs> rtt, std::optional<TimeNs> waited) noexcept {
  since_served_ = served ? 0 : since_served_ + 1;
  if (!rtt && in_vain_ >= kFewInVain) rtt = waited;
  if (!served || !rtt) return;
  served_.sample(*rtt);
  newest_served_ = *rtt;
}

void Rto::result_without_sample() noexcept {
  if (without_sample_ == kWithoutSample) return;
  ++without_sample_;
  level_ = 0;
}

void Rto::expired(TimeNs sent_at, TimeNs now) noexcept {
  if (level_ == 0 || sent_at >= doubled_at_) {
    level_ = std::min(level_ + 1, kMaxLevel);
    doubled_at_ = burst_at_ = now;
    burst_ = 0;
  } else if (now - burst_at_ >= timeout()) {
    burst_at_ = now;
    burst_ = 0;
  }
  ++burst_;
}

}  // namespace tally::engine
