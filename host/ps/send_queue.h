#pragma once
// What the server owes the box, first come first served, in a few words each: the sum of a RESULT is read
// from its state when its turn comes, straight into the datagram. Bounded; what does not fit is counted by
// its job and repaired by the timers of workers and server.

#include <cstdint>
#include <vector>

#include "tally/ids.h"

namespace tally {

enum class OwedKind : std::uint8_t { kResult, kFlush, kResend };

struct Owed {
  std::uint64_t ranks = 0;  // RESULT: who shall get it; RESEND: who shall offer again
  Epoch epoch{};            // not sent in another one
  Chunk chunk{};
  std::uint16_t job = 0;  // index in PsOptions::jobs
  OwedKind kind{};
  bool again = false;  // RESULT of a chunk that was complete before
};

class SendQueue {
 public:
  SendQueue() : ring_(kRoom) {}
  [[nodiscard]] bool push(const Owed& owed) noexcept {
    if (size_ == kRoom) return false;
    ring_[(head_ + size_++) % kRoom] = owed;
    return true;
  }
  Owed pop() noexcept {  // only when not empty
    const Owed first = ring_[head_];
    head_ = (head_ + 1) % kRoom;
    --size_;
    return first;
  }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

  static constexpr std::uint32_t kRoom = 4096;

 private:
  std::vector<Owed> ring_;
  std::uint32_t head_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace tally
