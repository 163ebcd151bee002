#pragma once
// One line per event of people's interest, to stderr. Under systemd the journal adds time and priority.

#include <cstdint>
#include <functional>
#include <string_view>

namespace tally {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError };

// Who takes a line; the daemon's is log_line.
using LogSink = std::function<void(LogLevel, std::string_view)>;

// Lines below `level` are not written. Until the first call: kInfo. Any thread.
void set_log_level(LogLevel level);

// Any thread. A line break in `text` continues the line below, indented.
void log_line(LogLevel level, std::string_view text) noexcept;

// Levels of RTE_LOG_*. What DPDK tells as information is detail to our readers: kDebug.
[[nodiscard]] LogLevel level_of_dpdk(std::uint32_t level) noexcept;

}  // namespace tally
