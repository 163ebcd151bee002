#pragma once
// One line per event of people's interest, to stderr. Under systemd the journal adds time and priority. Of every
// daemon here.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "tally/time.h"

namespace tally::log {

using LogLevel = config::LogSection::Level;

// Lines below `level` are not written. Until the first call: kInfo. Any thread.
void set_log_level(LogLevel level);

// Any thread. A line break in `text` continues the line below, indented.
void log_line(LogLevel level, std::string_view text) noexcept;

// Levels of RTE_LOG_*. What DPDK tells as information is detail to our readers: kDebug.
[[nodiscard]] LogLevel level_of_dpdk(std::uint32_t level) noexcept;

// Keeps a kind of line from flooding the log: a few at once, then one per interval, each saying how many were
// left out before it.

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

}  // namespace tally::log
