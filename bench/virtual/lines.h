#pragma once
// Whatever takes one thing after the other: directed links, a box's cores, a server's threads. Store and forward; nothing
// is dropped.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "schedule.h"
#include "tally/time.h"

namespace tally::bench {

class Lines final : public sim::Actor {
 public:
  struct Hop {
    std::size_t line = 0;
    double ns = 0;  // that it takes there
  };
  using Arrive = std::function<void()>;

  // hop: from the end of a load in one line to where it waits next.
  Lines(sim::Schedule& time, std::size_t lines, TimeNs hop)
      : time_(time), hop_(hop), free_(lines), busy_(lines) {}

  // Returns when the first line has taken it.
  TimeNs send(std::span<const Hop> way, Arrive arrive) {
    std::uint32_t at = 0;
    if (unused_.empty()) {
      at = static_cast<std::uint32_t>(under_way_.size());
      under_way_.emplace_back();
    } else {
      at = unused_.back();
      unused_.pop_back();
    }
    under_way_[at].way.assign(way.begin(), way.end());
    under_way_[at].next = 0;
    under_way_[at].arrive = std::move(arrive);
    const std::size_t first = way.front().line;
    go_on(at);
    return free_at(first);
  }

  [[nodiscard]] TimeNs free_at(std::size_t line) const noexcept { return static_cast<TimeNs>(free_[line]); }
  // ns that it had something since forget().
  [[nodiscard]] double busy(std::size_t line) const noexcept { return busy_[line]; }
  // Of the busiest of some that follow each other.
  [[nodiscard]] double busiest(std::size_t first, std::size_t lines) const {
    const auto begin = busy_.begin() + static_cast<std::ptrdiff_t>(first);
    return lines == 0 ? 0 : *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(lines));
  }
  void forget() { std::fill(busy_.begin(), busy_.end(), 0); }

  void on_event(std::uint32_t /*what*/, std::uint32_t at) override { go_on(at); }

 private:
  struct UnderWay {
    std::vector<Hop> way;
    std::size_t next = 0;
    Arrive arrive;
  };

  void go_on(std::uint32_t at) {
    UnderWay& it = under_way_[at];
    if (it.next == it.way.size()) {
      const Arrive arrive = std::exchange(it.arrive, nullptr);  // which may send others
      unused_.push_back(at);
      return arrive();
    }
    const Hop& hop = it.way[it.next++];
    free_[hop.line] = std::max(static_cast<double>(time_.now()), free_[hop.line]) + hop.ns;
    busy_[hop.line] += hop.ns;
    time_.at(static_cast<TimeNs>(free_[hop.line]) + hop_, *this, 0, at);
  }

  sim::Schedule& time_;
  TimeNs hop_;
  std::vector<double> free_;
  std::vector<double> busy_;
  std::vector<UnderWay> under_way_;
  std::vector<std::uint32_t> unused_;
};

}  // namespace tally::bench
