#pragma once
// What waits for one connection: by priority, but no request overtakes an earlier one whose keys may be the same. Bounded
// in bytes. One thread at a time.

#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "kv/frame.h"

namespace tally::kv {

class SendQueue {
 public:
  explicit SendQueue(std::size_t most) : most_(most) {}

  // false: there is no room, and it is not taken.
  [[nodiscard]] bool push(Frame frame) {
    const std::size_t bytes = kFrameHeaderBytes + sizes_of(frame).total();
    if (bytes > most_ || bytes_ > most_ - bytes) return false;
    bytes_ += bytes;
    auto place = waiting_.end();
    while (place != waiting_.begin() && may_overtake(frame, *(place - 1))) --place;
    waiting_.insert(place, std::move(frame));
    return true;
  }
  // The bytes still count until sent().
  [[nodiscard]] std::optional<Frame> pop() {
    if (waiting_.empty()) return std::nullopt;
    std::optional<Frame> first(std::move(waiting_.front()));
    waiting_.pop_front();
    return first;
  }
  void sent(const Frame& frame) noexcept { bytes_ -= kFrameHeaderBytes + sizes_of(frame).total(); }
  [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  void clear() noexcept {
    waiting_.clear();
    bytes_ = 0;
  }

 private:
  // Keys are ascending, so first and last say where they are.
  [[nodiscard]] static bool may_overtake(const Frame& later, const Frame& earlier) noexcept {
    if (later.type != FrameType::kRequest || earlier.type != FrameType::kRequest) return false;
    if (later.priority <= earlier.priority) return false;
    const SArray<Key>& a = later.data.keys;
    const SArray<Key>& b = earlier.data.keys;
    return later.app != earlier.app || a.back() < b.front() || b.back() < a.front();
  }

  std::size_t most_;
  std::size_t bytes_ = 0;
  std::deque<Frame> waiting_{};
};

}  // namespace tally::kv
