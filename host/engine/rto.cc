#include "engine/rto.h"

namespace tally::engine {

// 1 us << 20 is beyond the ceiling, and 1 s << 20 still far from overflow.
constexpr std::uint32_t kMaxLevel = 20;

void Rto::sample(TimeNs rtt) noexcept {
  if (!sampled_) {  // RFC 6298, 2.2
    srtt_ = rtt;
    rttvar_ = rtt / 2;
    sampled_ = true;
  } else {  // 2.3: beta = 1/4, alpha = 1/8
    const TimeNs deviation = srtt_ > rtt ? srtt_ - rtt : rtt - srtt_;
    rttvar_ = rttvar_ - rttvar_ / 4 + deviation / 4;
    srtt_ = srtt_ - srtt_ / 8 + rtt / 8;
  }
  level_ = 0;
  without_sample_ = 0;
  base_ = std::clamp(srtt_ + 4 * rttvar_, floor_, kRtoCeiling);
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
