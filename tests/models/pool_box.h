#pragma once
// The entries of a pool job (docs/protocol_box.md, 11.1): two versions of `window` slots.

#include <array>

#include "rack.h"

namespace tally::models {

// How often each rank's contribution is in it, two bits for each.
constexpr std::uint8_t once(Bits ranks) {
  std::uint8_t value = 0;
  for (int r = 0; r < kRanks; ++r) value |= static_cast<std::uint8_t>((ranks >> r & 1U) << 2 * r);
  return value;
}

class PoolBox {
 public:
  static constexpr bool kCrowded = false;
  struct Entry {
    std::uint8_t next = 0;  // chunk + 1; 0: free
    Bits contributors = 0;
    std::uint8_t value = 0;   // what its memory holds, also of a chunk before
    std::uint8_t values = 0;  // 1: somebody brought some; else the result is a header
  };
  struct State {
    std::array<Entry, kChunks> entries{};
    std::uint8_t high = 0;  // chunk + 1; 0: none
    std::uint8_t wrong = 0;
  };

  // zeros: ranks that have none but zeros, and leave them out. clears: whether their first contribution makes
  // the entry's memory 0, as the box does.
  PoolBox(int ranks, int window, Bits zeros = 0, bool clears = true)
      : members_(all(ranks)), zeros_(zeros), clears_(clears), window_(window) {}

  [[nodiscard]] const char* broken(const State& s) const {
    return s.wrong != 0 ? "a sum that does not hold each contribution once" : nullptr;
  }

  Answer contribute(State& s, int rank, int chunk, bool) const {
    const int ahead = chunk + 1 - s.high;
    if (s.high != 0 && (ahead <= -2 * window_ || ahead >= 2 * window_)) return {};
    Entry& e = s.entries[chunk % (2 * window_)];
    if (e.next == chunk + 1) {
      if ((e.contributors & bit(rank)) != 0)
        return e.contributors == members_ ? Answer{Said::kResult, bit(rank), 0} : Answer{};
    } else {
      if (e.next > chunk + 1) return {};  // Drop(stale)
      e = {static_cast<std::uint8_t>(chunk + 1), 0, clears_ || !is_zero(rank) ? std::uint8_t{0} : e.value, 0};
    }
    s.high = std::max<std::uint8_t>(s.high, static_cast<std::uint8_t>(chunk + 1));
    e.contributors |= bit(rank);
    if (!is_zero(rank)) e.value = static_cast<std::uint8_t>(e.value + once(bit(rank)));
    if (!is_zero(rank)) e.values = 1;
    if (e.contributors != members_) return {};
    if ((e.values != 0 ? e.value : 0) != once(static_cast<Bits>(members_ & ~zeros_))) s.wrong = 1;
    return {Said::kResult, members_, 0};
  }

  Answer query(State& s, int rank, int chunk) const {
    const Entry& e = s.entries[chunk % (2 * window_)];
    if (e.next != chunk + 1) return {Said::kWaiting, bit(rank), 0};
    if (e.contributors == members_) return {Said::kResult, bit(rank), 0};
    return {Said::kWaiting, bit(rank), e.contributors};
  }

  template <class Emit>
  void moves(const State&, const std::array<Bits, kChunks>&, bool, Emit) const {}

 private:
  [[nodiscard]] bool is_zero(int rank) const { return (zeros_ & bit(rank)) != 0; }

  Bits members_;
  Bits zeros_;
  bool clears_;
  int window_;
};

}  // namespace tally::models
