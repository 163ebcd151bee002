#pragma once
// ATP's congestion control, between a worker's engine and its link: chunks beyond the window wait here. It
// halves when a result says that something of its chunk met a long queue in front of the server, once for all
// that was under way then, and grows by one per window of results else (the model's `cc`).

#include <algorithm>
#include <cstdint>
#include <deque>
#include <unordered_set>

#include "packets.h"

namespace tally::experiment {

inline constexpr std::uint64_t kMarkedAbove = 128;  // packets in front of a server: the model's ecnK

class CongestionWindow {
 public:
  explicit CongestionWindow(std::uint32_t most) : most_(most), size_(most) {}

  enum class Fate : std::uint8_t { kGo, kWait, kWaitsAlready };
  // A contribution of the chunk. kWait takes the packet; next() gives it back.
  Fate take(std::uint32_t chunk, PacketId id) {
    if (flying_.contains(chunk)) return Fate::kGo;
    if (std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& w) { return w.chunk == chunk; }))
      return Fate::kWaitsAlready;
    if (waiting_.empty() && has_room()) {
      fly(chunk);
      return Fate::kGo;
    }
    waiting_.push_back({chunk, id});
    return Fate::kWait;
  }
  void result(std::uint32_t chunk, bool marked) {
    if (flying_.erase(chunk) == 0) return;
    if (!marked) {
      size_ = std::min(most_, size_ + 1 / size_);
    } else if (chunk >= halved_until_) {
      size_ = std::max(kLeast, size_ / 2);
      halved_until_ = next_;
    }
  }
  // True: *id may go now.
  bool next(PacketId* id) {
    if (waiting_.empty() || !has_room()) return false;
    *id = waiting_.front().id;
    fly(waiting_.front().chunk);
    waiting_.pop_front();
    return true;
  }

 private:
  static constexpr double kLeast = 2;
  struct Waiting {
    std::uint32_t chunk;
    PacketId id;
  };
  [[nodiscard]] bool has_room() const { return static_cast<double>(flying_.size() + 1) <= size_; }
  void fly(std::uint32_t chunk) {
    flying_.insert(chunk);
    next_ = std::max(next_, chunk + 1);
  }

  double most_;
  double size_;
  std::uint32_t next_ = 0;          // above every chunk that was sent; a run is too short to wrap
  std::uint32_t halved_until_ = 0;  // chunks below were under way when it halved last
  std::unordered_set<std::uint32_t> flying_;
  std::deque<Waiting> waiting_;
};

}  // namespace tally::experiment
