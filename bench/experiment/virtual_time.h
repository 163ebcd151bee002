#pragma once
// Virtual time for experiments: a queue of small events. What tests/sim/schedule.h does with closures costs
// an allocation for each event; here a run has millions. Events of one instant happen in the order in which
// they were made, so a run is a function of its seed.

#include <cstdint>
#include <utility>
#include <vector>

#include "tally/time.h"

namespace tally::experiment {

// Whoever takes part: a worker, the box, a server. `what` and `detail` mean what the actor says.
class Actor {
 public:
  Actor() = default;
  Actor(const Actor&) = delete;
  Actor& operator=(const Actor&) = delete;
  virtual ~Actor() = default;
  virtual void on_event(std::uint32_t what, std::uint32_t detail) = 0;
};

class VirtualTime {
 public:
  [[nodiscard]] TimeNs now() const noexcept { return now_; }
  [[nodiscard]] std::uint64_t events() const noexcept { return made_; }

  // when: not before now(). The actor outlives the event.
  void at(TimeNs when, Actor& actor, std::uint32_t what, std::uint32_t detail = 0) {
    const Event event{when, made_++, &actor, what, detail};
    std::size_t i = heap_.size();
    heap_.push_back(event);
    for (; i != 0; i = (i - 1) / kWays) {
      const std::size_t above = (i - 1) / kWays;
      if (!earlier(event, heap_[above])) break;
      heap_[i] = heap_[above];
    }
    heap_[i] = event;
  }

  // The earliest event happens. False: there is none.
  bool step() {
    if (heap_.empty()) return false;
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    now_ = first.when;
    first.actor->on_event(first.what, first.detail);
    return true;
  }

 private:
  static constexpr std::size_t kWays = 4;

  struct Event {
    TimeNs when;
    std::uint64_t order;
    Actor* actor;
    std::uint32_t what;
    std::uint32_t detail;
  };
  static bool earlier(const Event& a, const Event& b) noexcept {
    return a.when != b.when ? a.when < b.when : a.order < b.order;
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
  std::uint64_t made_ = 0;
  TimeNs now_ = 0;
};

}  // namespace tally::experiment
