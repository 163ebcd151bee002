#pragma once
// The thread of a KVWorker or KVServer, and what waits for it, in order.

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "tally/background_thread.h"
#include "tally/time.h"

namespace tally::kv {

class Inbox {
 public:
  // name: of the thread. drained: on it, when what waited beyond `most` bytes has become half of that.
  Inbox(const char* name, std::size_t most, std::function<void()> drained)
      : most_(most), drained_(std::move(drained)), thread_(background_thread(name, {}, [this] { run(); })) {}
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() { stop(); }

  // Any thread. bytes: what it holds of memory. false: more than `most` waits now; it is taken all the same.
  bool post(std::function<void()> work, std::size_t bytes = 0) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(std::move(work), bytes);
    bytes_ += bytes;
    if (bytes_ > most_) full_ = true;
    wake_.notify_one();
    return bytes_ <= most_;
  }
  // On its own thread: work runs there, once, when it is `when` (steady_now(); kNever), ahead of what waits. In place of
  // what was set before.
  void set_alarm(TimeNs when, std::function<void()> work) {
    alarm_at_ = when;
    alarm_ = std::move(work);
  }
  // Nothing runs before it.
  void begin() {
    const std::lock_guard lock(mutex_);
    begun_ = true;
    wake_.notify_one();
  }
  // What waits is forgotten. Not on its own thread.
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
      wake_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    decltype(waiting_) forgotten;
    const std::lock_guard lock(mutex_);  // others may still post
    forgotten.swap(waiting_);
  }
  [[nodiscard]] bool here() const noexcept { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      const auto has_work = [this] { return stopped_ || (begun_ && !waiting_.empty()); };
      if (alarm_at_ == kNever) {
        wake_.wait(lock, has_work);
      } else {
        wake_.wait_until(lock, std::chrono::steady_clock::time_point(std::chrono::nanoseconds(alarm_at_)),
                         has_work);
      }
      if (stopped_) return;
      if (alarm_at_ != kNever && steady_now() >= alarm_at_) {
        alarm_at_ = kNever;
        const auto alarm = std::exchange(alarm_, nullptr);
        lock.unlock();
        alarm();
        lock.lock();
        continue;
      }
      if (waiting_.empty()) continue;
      auto [work, bytes] = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      work();
      work = nullptr;  // its memory, too, before it counts as free
      lock.lock();
      bytes_ -= bytes;
      if (!full_ || bytes_ > most_ / 2) continue;
      full_ = false;
      lock.unlock();
      drained_();
      lock.lock();
    }
  }

  const std::size_t most_;
  const std::function<void()> drained_;
  std::mutex mutex_{};
  std::condition_variable wake_{};
  std::deque<std::pair<std::function<void()>, std::size_t>> waiting_{};
  std::size_t bytes_ = 0;
  TimeNs alarm_at_ = kNever;  // it and alarm_: of the thread
  std::function<void()> alarm_{};
  bool full_ = false;
  bool begun_ = false;
  bool stopped_ = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace tally::kv
