#pragma once
// Virtual time: a queue of events. Events of one instant happen in the order in which they were made, so a
// run is a function of its seed.

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "tally/time.h"

namespace tally::sim {

// Whom events are for: a worker, the box, a server. `what` and `detail` mean what the actor says. An
// experiment has millions of them, and a closure costs an allocation each.
class Actor {
 public:
  Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  virtual ~Actor() = default;
  virtual void on_event(std::uint32_t what, std::uint32_t detail) = 0;
};

class Schedule {
 public:
  using Action = std::function<void()>;

  [[nodiscard]] TimeNs now() const noexcept { return now_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return made_; }  // made so far

  // What is to happen before now happens now. The actor outlives the event.
  void at(TimeNs when, Actor& actor, std::uint32_t what, std::uint32_t detail = 0) {
    push({when < now_ ? now_ : when, made_++, &actor, what, detail});
  }
  void at(TimeNs when, Action action) { at(when, actions_, actions_.keep(std::move(action))); }
  void after(TimeNs delay, Action action) { at(now_ + delay, std::move(action)); }

  // The earliest event happens; false when there is none before `until`, and then it is `until`.
  bool step(TimeNs until) {
    if (heap_.empty() || heap_.front().when > until) {
      now_ = until;
      return false;
    }
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    now_ = first.when;
    first.actor->on_event(first.what, first.detail);
    return true;
  }

 private:
  static constexpr std::size_t kWays = 4;  // of the heap

  struct Event {
    TimeNs when;
    std::uint64_t order;
    Actor* actor;
    std::uint32_t what;
    std::uint32_t detail;
  };

  // Closures that wait, by the number that their event has for `what`.
  class Actions final : public Actor {
   public:
    std::uint32_t keep(Action action) {
      if (free_.empty()) {
        waiting_.push_back(std::move(action));
        return static_cast<std::uint32_t>(waiting_.size() - 1);
      }
      const std::uint32_t number = free_.back();
      free_.pop_back();
      waiting_[number] = std::move(action);
      return number;
    }
    void on_event(std::uint32_t number, std::uint32_t /*detail*/) override {
      const Action action = std::exchange(waiting_[number], nullptr);  // which may make others
      free_.push_back(number);
      action();
    }

   private:
    std::vector<Action> waiting_;
    std::vector<std::uint32_t> free_;
  };

  static bool earlier(const Event& a, const Event& b) noexcept {
    return a.when != b.when ? a.when < b.when : a.order < b.order;
  }
  void push(const Event& event) {
    std::size_t i = heap_.size();
    heap_.push_back(event);
    for (; i != 0; i = (i - 1) / kWays) {
      const std::size_t above = (i - 1) / kWays;
      if (!earlier(event, heap_[above])) break;
      heap_[i] = heap_[above];
    }
    heap_[i] = event;
  }
  void sink(const Event& event) noexcept {
    std::size_t i = 0;
    for (;;) {
      const std::size_t first = kWays * i + 1;
      if (first >= heap_.size()) break;
      std::size_t best = first;
      for (std::size_t k = first + 1; k < first + kWays && k < heap_.size(); ++k)
        if (earlier(heap_[k], heap_[best])) best = k;
      if (!earlier(heap_[best], event)) break;
      heap_[i] = heap_[best];
      i = best;
    }
    heap_[i] = event;
  }

  std::vector<Event> heap_;
  Actions actions_;
  std::uint64_t made_ = 0;
  TimeNs now_ = 0;
};

}  // namespace tally::sim
