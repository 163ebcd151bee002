#pragma once
// Answers owed to peers and servers, first come first served. Small on purpose: a worker that is asked faster
// than it can answer forgets, and the peer asks another or again.

#include <array>
#include <cstdint>

#include "tally/ids.h"

namespace tally {

struct OwedAnswer {
  std::uint64_t index = 0;  // of the chunk
  Rank asker{};             // a peer or a server
};

class AnswerQueue {
 public:
  [[nodiscard]] bool push(OwedAnswer answer) noexcept {
    if (size_ == kRoom) return false;
    ring_[(head_ + size_++) % kRoom] = answer;
    return true;
  }
  OwedAnswer pop() noexcept {  // only when not empty
    const OwedAnswer first = ring_[head_];
    head_ = (head_ + 1) % kRoom;
    --size_;
    return first;
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  void clear() noexcept { size_ = 0; }

 private:
  static constexpr std::uint32_t kRoom = 128;  // two askers per rank of the largest job
  std::array<OwedAnswer, kRoom> ring_{};
  std::uint32_t head_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace tally
