#pragma once
// One line per event of people's interest, to stderr. Under systemd the journal adds time and priority.

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/config.h"
#include "tally/time.h"

namespace tally::daemon {

using LogLevel = config::LogSection::Level;

// What a line is about, for who follows events (api/events.h). kind empty: it is only a line.
struct About {
  std::string_view kind{};
  std::string_view job{};
  std::optional<std::uint32_t> rank{};
  std::string_view port{};
};

// Who takes a line; the daemon's writes it by log_line and tells it to those who follow. Made of any function
// of a level and a text, and of an About if it wants to know.
class LogSink {
 public:
  template <class F>
  requires(!std::same_as<F, LogSink> && std::copy_constructible<F>)
      LogSink(F take) {  // NOLINT(google-explicit-constructor): as std::function is
    if constexpr (std::invocable<F&, LogLevel, std::string_view, const About&>)
      take_ = std::move(take);
    else
      take_ = [take = std::move(take)](LogLevel level, std::string_view text, const About&) mutable {
        take(level, text);
      };
  }
  void operator()(LogLevel level, std::string_view text, const About& about = {}) const {
    take_(level, text, about);
  }

 private:
  std::function<void(LogLevel, std::string_view, const About&)> take_;
};

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

}  // namespace tally::daemon
