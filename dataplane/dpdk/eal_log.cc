#include "eal_log.h"

#include <sys/types.h>

#include <utility>

#include <rte_log.h>

namespace tally {
namespace {

thread_local HeardErrors* listening = nullptr;

}  // namespace

DpdkLog::DpdkLog(EalLog log) : log_(std::move(log)) {
  cookie_io_functions_t functions{};
  functions.write = [](void* self, const char* bytes, std::size_t count) {
    static_cast<DpdkLog*>(self)->take({bytes, count});
    return static_cast<ssize_t>(count);
  };
  stream_ = fopencookie(this, "w", functions);
  if (stream_ != nullptr) rte_openlog_stream(stream_);
}

DpdkLog::~DpdkLog() {
  if (stream_ == nullptr) return;
  rte_openlog_stream(nullptr);
  static_cast<void>(std::fclose(stream_));
}

// DPDK flushes after each message, on the thread that logs; a message may be a part of a line or several.
void DpdkLog::take(std::string_view text) {
  const int current = rte_log_cur_msg_loglevel();
  const auto level = static_cast<std::uint32_t>(current < 0 ? RTE_LOG_INFO : static_cast<unsigned>(current));
  std::string lines;
  {
    const std::lock_guard lock(mutex_);
    unfinished_ += text;
    const std::size_t end = unfinished_.rfind('\n');
    if (end == std::string::npos) return;
    lines = unfinished_.substr(0, end);
    unfinished_.erase(0, end + 1);
  }
  for (std::string_view rest = lines; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (end > 0) line(level, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void DpdkLog::line(std::uint32_t level, std::string_view text) {
  if (listening != nullptr && level <= RTE_LOG_ERR) {
    std::string& lines = listening->lines_;
    if (!lines.empty()) lines += "; ";
    lines += text;
  }
  if (log_) log_(level, text);
}

HeardErrors::HeardErrors() : outer_(std::exchange(listening, this)) {}

HeardErrors::~HeardErrors() { listening = outer_; }

std::string HeardErrors::text() const { return lines_.empty() ? "" : "; DPDK says: " + lines_; }

}  // namespace tally
