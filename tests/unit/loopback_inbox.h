#pragma once
// What the loopback box has sent to one worker and the worker has not yet taken.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "frames.h"
#include "tally/time.h"

namespace tally::api_test {

class Inbox {
 public:
  explicit Inbox(std::uint16_t plug) : plug_(plug) {}
  [[nodiscard]] std::uint16_t plug() const noexcept { return plug_; }

  void put(Bytes datagram) {
    {
      const std::lock_guard lock(mutex_);
      datagrams_.push_back(std::move(datagram));
    }
    something_.notify_one();
  }
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    something_.notify_one();
  }
  [[nodiscard]] std::vector<Bytes> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(datagrams_, {});
  }
  void wait(TimeNs longest) {
    constexpr TimeNs kLongest = 10 * kSecond;
    std::unique_lock lock(mutex_);
    something_.wait_for(lock, std::chrono::nanoseconds(std::min(longest, kLongest)),
                        [this] { return woken_ || !datagrams_.empty(); });
    woken_ = false;
  }

 private:
  const std::uint16_t plug_;
  std::mutex mutex_;
  std::condition_variable something_;
  std::vector<Bytes> datagrams_;
  bool woken_ = false;
};

}  // namespace tally::api_test
