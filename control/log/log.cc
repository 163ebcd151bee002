#include "log/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <cstdlib>
#include <memory>

namespace tally::log {
namespace {

constexpr std::uint32_t kDpdkError = 4;
constexpr std::uint32_t kDpdkWarning = 5;
constexpr std::uint32_t kDpdkInfo = 7;

// The journal reads a priority in front of each line (sd-daemon(3)) and adds the time itself.
bool to_journal() { return std::getenv("JOURNAL_STREAM") != nullptr; }

std::shared_ptr<spdlog::logger> make_logger() {
  auto made = std::make_shared<spdlog::logger>("tally", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  made->set_pattern(to_journal() ? "%v" : "%Y-%m-%d %H:%M:%S.%e %-7l %v");
  made->set_level(spdlog::level::info);
  made->flush_on(spdlog::level::trace);
  return made;
}

spdlog::logger& logger() {
  static const std::shared_ptr<spdlog::logger> the_logger = make_logger();
  return *the_logger;
}

static_assert(static_cast<int>(LogLevel::kTrace) == spdlog::level::trace &&
              static_cast<int>(LogLevel::kError) == spdlog::level::err);
spdlog::level::level_enum to_spdlog(LogLevel level) { return static_cast<spdlog::level::level_enum>(level); }

std::string_view journal_priority(LogLevel level) {
  if (level == LogLevel::kError) return "<3>";
  if (level == LogLevel::kWarning) return "<4>";
  return level == LogLevel::kInfo ? "<6>" : "<7>";
}

}  // namespace

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

void log_line(LogLevel level, std::string_view text) noexcept {
  try {
    static const bool journal = to_journal();
    std::string line(journal ? journal_priority(level) : "");
    for (const char c : text) {
      line += c;
      if (c == '\n') line += "  ";
    }
    logger().log(to_spdlog(level), spdlog::string_view_t(line.data(), line.size()));
  } catch (...) {  // out of memory, or stderr is gone: nobody is left to tell
    return;
  }
}

LogLevel level_of_dpdk(std::uint32_t level) noexcept {
  if (level <= kDpdkError) return LogLevel::kError;
  if (level == kDpdkWarning) return LogLevel::kWarning;
  return level <= kDpdkInfo ? LogLevel::kDebug : LogLevel::kTrace;
}

}  // namespace tally::log
