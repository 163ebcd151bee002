#pragma once
// Ctrl-C and SIGTERM as a call on a thread of its own, where more is allowed than in a signal handler.

#include <atomic>
#include <functional>
#include <thread>

namespace tally::perf {

class InterruptWatch {
 public:
  // Blocks SIGINT and SIGTERM in the calling thread and those it starts: create it first of all. interrupted:
  // gets the signal's number, once per signal; not after the destruction, when the signals stay blocked.
  explicit InterruptWatch(std::function<void(int)> interrupted);

  // 0, or the newest signal.
  [[nodiscard]] int signal() const noexcept { return signal_; }

 private:
  std::atomic<int> signal_ = 0;
  std::jthread thread_;
};

}  // namespace tally::perf
