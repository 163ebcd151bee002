#include "dpdk_transport/idle_wait.h"

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "api/transport.h"

namespace tally::dpdk_transport {

TimeNs NapPolicy::next_nap(TimeNs now) const noexcept {
  const bool yields = now >= no_yield_until_;
  if (yields && rounds_ < kYields) return 0;
  return std::min(lengths_.longest, lengths_.first << std::min(yields ? rounds_ - kYields : rounds_, 16U));
}

void NapPolicy::yielded(TimeNs now, TimeNs took) noexcept {
  if (took >= kLateYield) no_yield_until_ = now + kNoYieldFor;
}

bool IdleWait::wait(TimeNs longest) {
  if (poll_) return true;
  if (woken_.exchange(false, std::memory_order_acquire)) {
    busy();
    return true;
  }
  const TimeNs now = steady_now();
  const TimeNs nap = std::min(policy_.next_nap(now), longest);
  policy_.waited();
  if (nap == 0) {
    sched_yield();
    const TimeNs after = steady_now();
    policy_.yielded(after, after - now);
    return true;
  }
  std::unique_lock lock(mutex_);
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(nap);
  while (!woken_.load(std::memory_order_relaxed))
    // A wake() that came too late to end this nap ends the next wait().
    if (wakened_.wait_until(lock, end) == std::cv_status::timeout) return false;
  woken_.store(false, std::memory_order_relaxed);
  busy();
  return true;
}

void IdleWait::wake() noexcept {
  {
    const std::lock_guard lock(mutex_);
    woken_.store(true, std::memory_order_release);
  }
  wakened_.notify_one();
}

}  // namespace tally::dpdk_transport
