#pragma once
// Retransmission timeout after RFC 6298 with Karn's rule (the caller samples only chunks sent once). One
// estimate and one back-off for all chunks in flight: the back-off doubles once per round of time-outs, not
// once per lost packet, and a sample ends it. So does any other result while samples come: with many ranks
// hardly a chunk gets through without a loss somewhere. When none of the last kWithoutSample results was one,
// the timeout is probably shorter than the round trip: everything is sent twice, nothing is sampled, and it
// must grow.

#include <algorithm>
#include <cstdint>

#include "tally/time.h"

namespace tally::engine {

inline constexpr TimeNs kFirstRto = 100 * kMillisecond;
inline constexpr TimeNs kRtoCeiling = kSecond;
inline constexpr TimeNs kLeastEarly = kMillisecond;
inline constexpr std::uint32_t kWithoutSample = 32;
inline constexpr std::uint32_t kLeastBurst = 16;

class Rto {
 public:
  explicit Rto(TimeNs floor) noexcept : floor_(floor), base_(std::max(floor, kFirstRto)) {}

  void sample(TimeNs rtt) noexcept;
  // A result of a chunk that was sent more than once.
  void result_without_sample() noexcept;

  // A packet sent at `sent_at` ran out at `now`. Doubles unless it was sent before the last doubling: then it
  // belongs to the round that caused it.
  void expired(TimeNs sent_at, TimeNs now) noexcept;

  // When the next one that ran out may be sent. While there is a back-off, at most `window` >> doublings (at
  // least kLeastBurst) leave in the time of one timeout, those that waited longest first: a queue that is too
  // short for all would lose the same ones every time, and these may be other ones at each rank.
  [[nodiscard]] TimeNs pause_end(std::uint32_t window) const noexcept {
    if (level_ == 0 || burst_ < std::max(kLeastBurst, window >> level_)) return 0;
    return burst_at_ + timeout();
  }

  // What the back-off was for is over.
  void forget_back_off() noexcept { level_ = 0; }

  // When a packet sent at `sent_at` runs out. Does not decrease with `sent_at`, so a list in order of sending
  // is a list in order of running out.
  [[nodiscard]] TimeNs due(TimeNs sent_at) const noexcept {
    return sent_at + (level_ != 0 && sent_at < doubled_at_ ? timeout(level_ - 1) : timeout(level_));
  }
  [[nodiscard]] TimeNs timeout() const noexcept { return timeout(level_); }
  // When to ask for what was overtaken. A contribution that anybody lost was told of a round trip after it
  // was sent, and repaired within another one. The path is known to work: no back-off, no floor.
  [[nodiscard]] TimeNs ask_due(TimeNs sent_at) const noexcept {
    return sent_at + std::min(2 * srtt_ + 4 * rttvar_, kRtoCeiling);
  }
  // When to send again what was sent again early: the path is known to work, so neither back-off nor the
  // floor that allows for sleepers applies.
  [[nodiscard]] TimeNs early_due(TimeNs sent_at) const noexcept {
    return sent_at + std::min(std::max(srtt_ + 4 * rttvar_, kLeastEarly), base_);
  }
  [[nodiscard]] TimeNs srtt() const noexcept { return srtt_; }

 private:
  [[nodiscard]] TimeNs timeout(std::uint32_t level) const noexcept {
    return std::min(base_ << level, kRtoCeiling);
  }

  TimeNs floor_;
  TimeNs base_;  // without back-off
  TimeNs srtt_ = 0;
  TimeNs rttvar_ = 0;
  TimeNs doubled_at_ = 0;
  TimeNs burst_at_ = 0;
  std::uint32_t burst_ = 0;  // ran out and were sent since then
  std::uint32_t level_ = 0;
  std::uint32_t without_sample_ = kWithoutSample;  // results since the last one
  bool sampled_ = false;
};

}  // namespace tally::engine
