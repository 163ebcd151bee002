#pragma once
// When to say something again to control: at once, then after 100 ms doubling to 1 s. Used for JOIN, LEAVE
// and ABORT. start() never brings the next saying closer than 100 ms to the last.

#include <algorithm>
#include <cstdint>

#include "tally/time.h"

namespace tally {

inline constexpr TimeNs kFirstRepeat = 100 * kMillisecond;
inline constexpr TimeNs kLastRepeat = kSecond;

class Backoff {
 public:
  void start(TimeNs now) noexcept {
    due_ = said_before_ ? std::max(now, last_ + kFirstRepeat) : now;
    interval_ = kFirstRepeat;
    tries_ = 0;
  }
  void stop() noexcept { due_ = kNever; }
  void said(TimeNs now) noexcept {
    said_before_ = true;
    last_ = now;
    due_ = now + interval_;
    interval_ = std::min(2 * interval_, kLastRepeat);
    ++tries_;
  }
  // Not before that time.
  void put_off(TimeNs until) noexcept { due_ = std::max(due_, until); }
  [[nodiscard]] TimeNs due() const noexcept { return due_; }
  [[nodiscard]] std::uint32_t tries() const noexcept { return tries_; }

 private:
  TimeNs due_ = kNever;
  TimeNs last_ = 0;
  TimeNs interval_ = kFirstRepeat;
  std::uint32_t tries_ = 0;
  bool said_before_ = false;
};

}  // namespace tally
