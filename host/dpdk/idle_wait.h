#pragma once
// How the progress thread waits when there is nothing to do: it gives the CPU away at first, then sleeps,
// longer and longer. Many workers and the daemon share few cores on a small machine, where one that polls
// keeps the others from answering it.

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tally/time.h"

namespace tally {

class IdleWait {
 public:
  explicit IdleWait(bool poll) noexcept : poll_(poll) {}

  // Owner: the progress thread.
  void busy() noexcept { rounds_ = 0; }  // something was sent or received
  void wait(TimeNs longest);             // returns at once after wake(), at the latest after kLongestNap
  // Any thread. Ends the wait() under way, or the next one.
  void wake() noexcept;

  // Naps grow from the first to the longest.
  static constexpr unsigned kYields = 32;
  static constexpr TimeNs kFirstNap = 50 * kMicrosecond;
  static constexpr TimeNs kLongestNap = kMillisecond;
  // What the next wait() does: 0 = yields. For tests of the policy.
  [[nodiscard]] TimeNs next_nap() const noexcept;

 private:
  const bool poll_;
  unsigned rounds_ = 0;
  std::atomic<bool> woken_ = false;
  std::mutex mutex_;
  std::condition_variable wakened_;
};

}  // namespace tally
