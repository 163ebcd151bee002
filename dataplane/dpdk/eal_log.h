#pragma once
// DPDK's log, line by line.

#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

#include "eal.h"

namespace tally {

// Where DPDK writes from now on, until it is destroyed: give it to rte_openlog_stream() before
// rte_eal_init().
class DpdkLog {
 public:
  explicit DpdkLog(EalLog log);
  DpdkLog(const DpdkLog&) = delete;
  DpdkLog& operator=(const DpdkLog&) = delete;
  ~DpdkLog();

  void line(std::uint32_t level, std::string_view text);

 private:
  void take(std::string_view text);

  std::mutex mutex_;  // of unfinished_; libraries log from any thread
  std::string unfinished_;
  EalLog log_;
  std::FILE* stream_ = nullptr;
};

// Collects what DPDK reports as an error on this thread while it lives: the reason that a return code of -1
// does not tell.
class HeardErrors {
 public:
  HeardErrors();
  HeardErrors(const HeardErrors&) = delete;
  HeardErrors& operator=(const HeardErrors&) = delete;
  ~HeardErrors();

  // "; DPDK says: ..." or nothing.
  [[nodiscard]] std::string text() const;

 private:
  HeardErrors* outer_;
  std::string lines_;
  friend class DpdkLog;
};

}  // namespace tally
