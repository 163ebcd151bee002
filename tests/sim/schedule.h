#pragma once
// Virtual time: a queue of events. Events of one instant run in the order they were made, so a run is a
// function of its seed.

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "tally/time.h"

namespace tally::sim {

class Schedule {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] TimeNs now() const noexcept { return now_; }
  void at(TimeNs when, Action action) {
    queue_.push({when < now_ ? now_ : when, next_++, std::move(action)});
  }
  void after(TimeNs delay, Action action) { at(now_ + delay, std::move(action)); }

  // Runs the earliest event; false when there is none before `until`, and then it is `until`.
  bool step(TimeNs until) {
    if (queue_.empty() || queue_.top().when > until) {
      now_ = until;
      return false;
    }
    Action action =
        std::move(const_cast<Entry&>(queue_.top()).action);  // popped at once: the order is not touched
    now_ = queue_.top().when;
    queue_.pop();
    action();
    return true;
  }

 private:
  struct Entry {
    TimeNs when;
    std::uint64_t order;
    Action action;
    bool operator<(const Entry& other) const noexcept {
      return when != other.when ? when > other.when : order > other.order;  // the earliest on top
    }
  };
  std::priority_queue<Entry> queue_;
  std::uint64_t next_ = 0;
  TimeNs now_ = 0;
};

}  // namespace tally::sim
