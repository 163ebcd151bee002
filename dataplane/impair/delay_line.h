#pragma once
// Frames that leave later than they came: those held back until later ones have passed, and those with a
// delay. Bounded, and without memory of its own making after construction. Pure: time is what the caller
// says, and never less than before. Owner: one thread.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include "impair/faults.h"

namespace tally::impair {

// Handle: what stands for a frame. The line never looks into it.
template <class Handle>
class DelayLine {
 public:
  static_assert(std::is_trivially_copyable_v<Handle>);
  DelayLine(const ImpairOptions& options, ImpairCounters& counters)
      : limit_(options.delay != 0 ? options.queue : kPassing),
        delays_(options.delay != 0),
        counters_(counters) {
    waiting_.reserve(limit_);
  }

  // The line has `frame` now; behind it come those that were held back for it. What finds no room is
  // counted and given to refused(Handle).
  template <class Refused>
  void enter(Handle frame, TimeNs now, Faults& faults, Refused&& refused) noexcept {
    const std::uint32_t distance = faults.held_back();
    if (distance == 0) wait(frame, now, faults, refused);
    for (std::size_t i = 0; i < count_; ++i) --held_[i].left;
    release(now, faults, refused);
    if (distance == 0) return;
    ++counters_.reordered;
    // There is room: whatever is held came at most kFarthest - 1 frames ago.
    held_[count_++] = {frame, distance, now + kLongestHold};
  }

  // The next frame whose time has come: the earliest, and of one time the one that came first.
  template <class Refused>
  [[nodiscard]] std::optional<Handle> leave(TimeNs now, Faults& faults, Refused&& refused) noexcept {
    if (count_ != 0 && held_[0].until <= now) release(now, faults, refused);
    if (waiting_.empty() || waiting_.front().due > now) return std::nullopt;
    return first();
  }

  // Some frame, whether it is due or not; until there is none.
  [[nodiscard]] std::optional<Handle> remove() noexcept {
    if (count_ != 0) return held_[--count_].frame;
    if (waiting_.empty()) return std::nullopt;
    return first();
  }

  [[nodiscard]] std::size_t size() const noexcept { return waiting_.size() + count_; }
  // A frame that enters and is not held back finds a place.
  [[nodiscard]] bool has_room() const noexcept { return waiting_.size() < limit_; }
  // When leave() has a frame, if none enters before; kNever: the line is empty.
  [[nodiscard]] TimeNs next_due() const noexcept {
    const TimeNs held = count_ != 0 ? held_[0].until : kNever;
    return waiting_.empty() ? held : std::min(held, waiting_.front().due);
  }

 private:
  struct Held {
    Handle frame;
    std::uint32_t left;  // later frames that it lets pass
    TimeNs until;
  };
  struct Waiting {
    TimeNs due;
    std::uint64_t order;
    Handle frame;
  };
  // For a heap whose front leaves first.
  static bool later(const Waiting& a, const Waiting& b) noexcept {
    return a.due != b.due ? a.due > b.due : a.order > b.order;
  }

  // Those that were held back long enough, in the order in which they came.
  template <class Refused>
  void release(TimeNs now, Faults& faults, Refused& refused) noexcept {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      if (held_[i].left == 0 || held_[i].until <= now)
        wait(held_[i].frame, now, faults, refused);
      else
        held_[kept++] = held_[i];
    }
    count_ = kept;
  }

  template <class Refused>
  void wait(Handle frame, TimeNs now, Faults& faults, Refused& refused) noexcept {
    const TimeNs delay = faults.delay();
    if (!has_room()) {
      ++counters_.overflow;
      return refused(frame);
    }
    if (delays_) ++counters_.delayed;
    waiting_.push_back({now + delay, order_++, frame});
    std::push_heap(waiting_.begin(), waiting_.end(), later);
  }

  [[nodiscard]] Handle first() noexcept {
    std::pop_heap(waiting_.begin(), waiting_.end(), later);
    const Handle frame = waiting_.back().frame;
    waiting_.pop_back();
    return frame;
  }

  std::size_t limit_;
  bool delays_;
  ImpairCounters& counters_;
  std::vector<Waiting> waiting_;  // a heap
  std::uint64_t order_ = 0;
  std::array<Held, kFarthest> held_{};  // in the order in which they came
  std::size_t count_ = 0;
};

}  // namespace tally::impair
