#pragma once
// How the progress thread waits when there is nothing to do: it gives the CPU away at first, then sleeps,
// longer and longer. Many workers and the daemon share few cores on a small machine, where one that polls
// keeps the others from answering it.

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tally/time.h"

namespace tally::dpdk_transport {

// Naps grow from the first to the longest.
struct NapLengths {
  TimeNs first = 50 * kMicrosecond;
  TimeNs longest = kMillisecond;
};

// What it does next. Pure. Owner: the progress thread.
class NapPolicy {
 public:
  explicit NapPolicy(NapLengths lengths = {}) noexcept : lengths_(lengths) {}

  void busy() noexcept { rounds_ = 0; }  // something was sent or received
  // Of the next wait: how long to nap, 0 = yield.
  [[nodiscard]] TimeNs next_nap(TimeNs now) const noexcept;
  void waited() noexcept { ++rounds_; }
  [[nodiscard]] unsigned rounds() const noexcept { return rounds_; }  // waits since busy()
  // A yield that ended at `now` took so long.
  void yielded(TimeNs now, TimeNs took) noexcept;

  static constexpr unsigned kYields = 32;
  // Who yields to a program that computes waits for the end of its slice, milliseconds; who sleeps gets the
  // CPU when it wakes. So after a yield that took so long there are only naps for a while.
  static constexpr TimeNs kLateYield = 500 * kMicrosecond;
  static constexpr TimeNs kNoYieldFor = 20 * kMillisecond;

 private:
  NapLengths lengths_;
  unsigned rounds_ = 0;
  TimeNs no_yield_until_ = 0;
};

class IdleWait {
 public:
  explicit IdleWait(bool poll, NapLengths lengths = {}) noexcept : poll_(poll), policy_(lengths) {}

  // Owner: the progress thread.
  void busy() noexcept { policy_.busy(); }
  // Returns at once after wake(), at the latest when the nap is over. False: a nap lasted to its end.
  bool wait(TimeNs longest);
  // Any thread. Ends the wait() under way, or the next one.
  void wake() noexcept;
  [[nodiscard]] const NapPolicy& policy() const noexcept { return policy_; }

 private:
  const bool poll_;
  NapPolicy policy_;
  std::atomic<bool> woken_ = false;
  std::mutex mutex_;
  std::condition_variable wakened_;
};

}  // namespace tally::dpdk_transport
