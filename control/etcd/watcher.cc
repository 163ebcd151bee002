#include "etcd/watcher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tally/background_thread.h"

namespace tally::etcd {

Watcher::Watcher(const Settings& settings, Choice& choice, fleet::WatchId id, std::string prefix,
                 fleet::Revision from, Tell tell)
    : gateway_(settings, choice), id_(id), prefix_(std::move(prefix)), next_(from), tell_(std::move(tell)) {
  thread_ = background_thread("tally-watch", settings.avoid, [this] { run(); });
}

Watcher::~Watcher() {
  // A connection that is being made cannot be ended; the next look finds it made, or given up.
  for (stop(); !finished(); stop()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  thread_.join();
}

void Watcher::stop() noexcept {
  {
    const std::lock_guard lock(mutex_);
    stopped_.store(true, std::memory_order_release);
  }
  wake_.notify_all();
  gateway_.stop();
}

void Watcher::run() {
  TimeNs pause = kShortPause;
  while (!ended_ && !stopped_.load(std::memory_order_acquire)) {
    heard_ = false;
    (void)gateway_.stream(watch_of(prefix_, next_), [this](std::string_view line) { return take(line); });
    pause = heard_ ? kShortPause : std::min(2 * pause, kLongPause);
    std::unique_lock lock(mutex_);
    if (ended_) break;
    wake_.wait_for(lock, std::chrono::nanoseconds(pause),
                   [this] { return stopped_.load(std::memory_order_acquire); });
  }
  finished_.store(true, std::memory_order_release);
}

// False: this connection has no more to say.
bool Watcher::take(std::string_view line) {
  if (stopped_.load(std::memory_order_acquire)) return false;
  auto read = read_watch_line(line);
  if (!read) return false;
  if (read->no_token) gateway_.forget_token();
  if (read->compacted) {
    ended_ = true;
    tell_(fleet::WatchOver{id_, std::move(read->why)});
  }
  if (read->over) return false;
  heard_ = true;
  // Changes that were told over the connection before.
  std::erase_if(read->changes, [this](const fleet::Change& change) { return change.pair.modified < next_; });
  if (read->changes.empty()) return true;
  next_ = read->last + 1;
  tell_(fleet::Changes{id_, read->last, std::move(read->changes)});
  return true;
}

}  // namespace tally::etcd
