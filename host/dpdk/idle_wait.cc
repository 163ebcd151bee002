#include "idle_wait.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

namespace tally {

TimeNs IdleWait::next_nap() const noexcept {
  if (poll_ || rounds_ < kYields) return 0;
  return std::min(kLongestNap, kFirstNap << std::min(rounds_ - kYields, 16U));
}

void IdleWait::wait(TimeNs longest) {
  if (poll_) return;
  const TimeNs nap = std::min(next_nap(), longest);
  ++rounds_;
  if (woken_.exchange(false, std::memory_order_acquire)) {
    rounds_ = 0;
    return;
  }
  if (nap == 0) {
    sched_yield();
    return;
  }
  std::unique_lock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(nap);
  if (wakened_.wait_until(lock, end, [this] { return woken_.load(std::memory_order_relaxed); })) {
    woken_.store(false, std::memory_order_relaxed);
    rounds_ = 0;
  }
}

void IdleWait::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    woken_.store(true, std::memory_order_release);
  }
  wakened_.notify_one();
}

}  // namespace tally
