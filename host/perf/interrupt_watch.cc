#include "perf/interrupt_watch.h"

#include <csignal>
#include <ctime>
#include <stop_token>
#include <utility>

namespace tally::perf {

InterruptWatch::InterruptWatch(std::function<void(int)> interrupted) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::jthread([this, set, interrupted = std::move(interrupted)](const std::stop_token& stop) {
    constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 100'000'000};  // how soon the end of the watch is seen
    while (!stop.stop_requested()) {
      const int signal = sigtimedwait(&set, nullptr, &kLook);
      if (signal <= 0 || stop.stop_requested()) continue;
      signal_ = signal;
      interrupted(signal);
    }
  });
}

}  // namespace tally::perf
