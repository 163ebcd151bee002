#pragma once
// What a data core tells control. A small ring; when it is full the newest is lost and counted, because the
// next packet of the same kind raises the same event again.

#include <array>
#include <cstdint>
#include <optional>

#include "registers.h"
#include "tally/ids.h"

namespace tally {

enum class EventKind : std::uint8_t {
  kMismatch,  // rank's contribution differs in size or type from what `others` sent: control ABORTs the job
  kPoisoned,  // a suspect job's contribution failed its sums: `rank` corrupts
};

struct Event {
  EventKind kind{};
  JobId job{};
  Epoch epoch{};
  Chunk chunk{};
  Rank rank{};
  std::uint64_t others = 0;  // kMismatch: ranks in the entry
  Shape sent;                // by `rank`
  Shape stored;              // by the others
};

class EventQueue {
 public:
  void push(const Event& event) noexcept {
    if (count_ == kCapacity) {
      ++lost_;
      return;
    }
    ring_[(first_ + count_++) % kCapacity] = event;
  }
  std::optional<Event> pop() noexcept {
    if (count_ == 0) return std::nullopt;
    const Event event = ring_[first_];
    first_ = (first_ + 1) % kCapacity;
    --count_;
    return event;
  }
  [[nodiscard]] std::uint64_t lost() const noexcept { return lost_; }

 private:
  static constexpr std::size_t kCapacity = 64;
  std::array<Event, kCapacity> ring_{};
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  std::uint64_t lost_ = 0;
};

}  // namespace tally
