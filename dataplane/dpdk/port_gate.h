#pragma once
// Keeps data threads out of a driver while what it works on is taken away and made anew: the shared memory of a
// memif, whose driver in DPDK 22.11 unmaps it on EAL's interrupt thread as soon as the other end is gone,
// without asking whether a data thread is copying a frame there; the whole device of a port whose network
// interface has vanished (Port::follow).
//
// Open: data threads may use the port. Closed: their bursts move nothing. close() returns when none is
// inside; shut() does not wait, and empty() says when that is so. What was done to the device between empty()
// and open() is seen by every thread that enters afterwards.

#include <array>
#include <atomic>
#include <cstdint>

namespace tally::dpdk {

inline constexpr std::uint16_t kMostGatedQueues = 64;  // kMaxShards
inline constexpr std::uint16_t kMostPorts = 32;        // RTE_MAX_ETHPORTS of Debian's DPDK

class PortGate {
 public:
  enum Side : std::uint8_t { kReceive, kTransmit };

  // port: of ethdev. A port without a gate (guarded() is false) is not slowed down.
  [[nodiscard]] static PortGate& of(std::uint16_t port) noexcept { return gates[port % kMostPorts]; }
  [[nodiscard]] bool guarded() const noexcept { return guarded_.load(std::memory_order_relaxed); }

  // The thread of the queue, around each burst.
  [[nodiscard]] bool enter(Side side, std::uint16_t queue) noexcept {
    std::atomic<bool>& inside = inside_[side][queue].value;
    // Before the look at open_, in the one order that close() sees too.
    inside.store(true, std::memory_order_seq_cst);
    if (open_.load(std::memory_order_seq_cst)) return true;
    inside.store(false, std::memory_order_release);
    return false;
  }
  void leave(Side side, std::uint16_t queue) noexcept {
    inside_[side][queue].value.store(false, std::memory_order_release);
  }

  // Not on a thread that is inside. guard(): while nobody uses the port.
  void guard(bool on) noexcept {
    open_.store(false, std::memory_order_seq_cst);
    guarded_.store(on, std::memory_order_relaxed);
  }
  void open() noexcept { open_.store(true, std::memory_order_seq_cst); }
  void close() noexcept;
  void shut() noexcept { open_.store(false, std::memory_order_seq_cst); }
  // After shut(): nobody is inside, and nobody comes in.
  [[nodiscard]] bool empty() const noexcept;

 private:
  struct alignas(64) Flag {
    std::atomic<bool> value = false;
  };
  std::atomic<bool> guarded_ = false;
  std::atomic<bool> open_ = false;
  std::array<std::array<Flag, kMostGatedQueues>, 2> inside_{};

  static std::array<PortGate, kMostPorts> gates;
};

}  // namespace tally::dpdk
