#include "perf/interrupt_watch.h"

#include <csignal>
#include <ctime>
#include <utility>

namespace tally::perf {
namespace {

constexpr timespec kLook{.tv_sec = 0, .tv_nsec = 100'000'000};  // how soon the end of the watch is seen

sigset_t watched() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

InterruptWatch::InterruptWatch(std::function<void(int)> interrupted) : interrupted_(std::move(interrupted)) {
  const sigset_t set = watched();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

InterruptWatch::~InterruptWatch() {
  stop_ = true;
  thread_.join();
}

void InterruptWatch::watch() {
  const sigset_t set = watched();
  while (!stop_) {
    const int signal = sigtimedwait(&set, nullptr, &kLook);
    if (signal <= 0 || stop_) continue;
    signal_ = signal;
    interrupted_(signal);
  }
}

}  // namespace tally::perf
