#pragma once
// Keeps a kind of line from flooding the log: a few at once, then one per interval, each saying how many were
// left out before it.

#include <cstdint>
#include <optional>
#include <string>

#include "tally/time.h"

namespace tally {

class LogLimit {
 public:
  // burst >= 1.
  LogLimit(std::uint32_t burst, TimeNs interval) noexcept
      : burst_(burst), interval_(interval), tokens_(burst) {}

  // Empty: leave this line out. Otherwise how many were left out since the last one.
  [[nodiscard]] std::optional<std::uint64_t> take(TimeNs now) noexcept {
    if (tokens_ < burst_ && now >= refilled_ + interval_) {
      const std::uint64_t earned = (now - refilled_) / interval_;
      tokens_ = earned >= burst_ - tokens_ ? burst_ : tokens_ + static_cast<std::uint32_t>(earned);
      refilled_ += earned * interval_;
    }
    if (tokens_ == 0) {
      ++left_out_;
      return std::nullopt;
    }
    if (tokens_ == burst_) refilled_ = now;
    --tokens_;
    const std::uint64_t n = left_out_;
    left_out_ = 0;
    return n;
  }

 private:
  std::uint32_t burst_;
  TimeNs interval_;
  std::uint32_t tokens_;
  TimeNs refilled_ = 0;
  std::uint64_t left_out_ = 0;
};

[[nodiscard]] inline std::string left_out_text(std::uint64_t n) {
  return n == 0 ? "" : " (" + std::to_string(n) + " lines like this were left out)";
}

}  // namespace tally
