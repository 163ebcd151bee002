#pragma once
// The lines of tallyd's log, and what each is about.

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "log/log.h"

namespace tally::daemon {

using log::left_out_text;
using log::level_of_dpdk;
using log::log_line;
using log::LogLevel;
using log::LogLimit;
using log::set_log_level;

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

}  // namespace tally::daemon
