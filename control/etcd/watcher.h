#pragma once
// A watch at etcd in a thread of its own: connected again from where it was, as often as it takes, until etcd has
// forgotten what comes next. Owner: the store's thread, but for what is said otherwise.

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "etcd/gateway.h"
#include "fleet/store.h"

namespace tally::etcd {

class Watcher {
 public:
  // tell: is called from the watcher's thread, with Changes and at most one WatchOver.
  using Tell = std::function<void(fleet::News)>;

  // settings and choice outlive it. Throws std::system_error where there is no thread.
  Watcher(const Settings& settings, Choice& choice, fleet::WatchId id, std::string prefix,
          fleet::Revision from, Tell tell);
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  // Waits until the thread is over.
  ~Watcher();

  // Tells nothing any more, and ends soon. Does not wait.
  void stop() noexcept;
  [[nodiscard]] bool finished() const noexcept { return finished_.load(std::memory_order_acquire); }

 private:
  void run();
  bool take(std::string_view line);

  static constexpr TimeNs kShortPause = 100 * kMillisecond;
  static constexpr TimeNs kLongPause = 2 * kSecond;

  Gateway gateway_;
  fleet::WatchId id_;
  std::string prefix_;
  fleet::Revision next_;
  Tell tell_;
  bool ended_ = false;  // the thread's: it has told so
  bool heard_ = false;  // likewise: since it was connected
  std::atomic<bool> stopped_{false};
  std::atomic<bool> finished_{false};
  std::mutex mutex_{};
  std::condition_variable wake_{};
  std::thread thread_{};
};

}  // namespace tally::etcd
