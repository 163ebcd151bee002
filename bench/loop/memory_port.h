#pragma once
// The in-memory port: an ethdev port whose bursts are served from memory on the same core. Receive takes the
// oldest mbuf of a ring of several MiB and puts a fresh one from the mempool behind the others; transmit
// frees. What else it does is its driver's kind:
//
// - as a NIC serves them after its DMA went to the L3 cache: the frames lie there, headers and values, before
//   the turn begins. The core touches mbufs only; a result is noted, and checked when the turn is over.
// - as a driver that copies: receive writes the 98 bytes of headers that were prepared for the frame, and
//   reads the payload once; transmit reads every header and checks the result at once.
//
// DPDK's headers for drivers are not packaged, so this takes the place of the burst functions of a port that
// exists: net_vhost, whose capabilities are a NIC's (segments, UDP checksum verdicts, mbufs of its own) and
// which without a guest does nothing.

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "traffic.h"

struct rte_mbuf;
struct rte_mempool;

namespace tally::bench {

enum class Driver : std::uint8_t { kNic, kCopies };

struct MemoryPortOptions {
  std::uint16_t ethdev = 0;  // started; its queue is taken over
  std::uint16_t queue = 0;
  std::size_t index = 0;  // as Traffic numbers ports
  std::uint32_t descriptors = 0;
  rte_mempool* frames = nullptr;  // every mbuf painted
  Driver driver = Driver::kCopies;
  bool check = true;  // false: what is transmitted is not a result (cost of the port alone)
  // Frames received so far, for the port of another thread; and that one's: this one is not kPace ahead.
  std::atomic<std::uint64_t>* pace = nullptr;
  const std::atomic<std::uint64_t>* other = nullptr;
};

class MemoryPort {
 public:
  // Bounds what waits for a core that other cores hand frames to.
  static constexpr std::uint64_t kPace = 256;

  // traffic: outlives the port.
  MemoryPort(const MemoryPortOptions& options, Traffic& traffic);
  MemoryPort(const MemoryPort&) = delete;
  MemoryPort& operator=(const MemoryPort&) = delete;
  ~MemoryPort();  // the ethdev must not be used any more

  // Makes the headers of the frames that lie in the ring now, that is of its next turn, which must be
  // complete before this is called again. Nothing is received beyond that turn.
  void prepare();
  // The same from elsewhere: next(i, frame, headers) writes those of the i-th.
  using NextHeaders = std::function<void(std::size_t i, const std::byte* frame,
                                         std::span<std::byte, Traffic::kHeaders> headers)>;
  void prepare(const NextHeaders& next);
  // The i-th frame of that turn: its headers, and its values.
  [[nodiscard]] const std::byte* headers(std::size_t i) const noexcept;
  [[nodiscard]] std::byte* values(std::size_t i) const noexcept;
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  // After a turn, of a NIC: what it has noted is checked now.
  void check_sent() noexcept;
  // Receive bursts that found the mempool empty.
  [[nodiscard]] std::uint64_t starved() const noexcept { return starved_; }

 private:
  std::uint16_t receive(rte_mbuf** frames, std::uint16_t count) noexcept;
  // first: where in the ring the first of them was.
  void copy_in(std::size_t first, std::span<rte_mbuf* const> frames) noexcept;
  std::uint16_t transmit(rte_mbuf** frames, std::uint16_t count) noexcept;

  MemoryPortOptions options_;
  Traffic& traffic_;
  std::vector<rte_mbuf*> ring_;  // full; oldest at head_
  std::size_t head_ = 0;
  struct alignas(64) Headers {
    std::array<std::byte, Traffic::kHeaders> bytes;
  };
  std::vector<Headers> prepared_;  // as ring_; of a driver that copies
  struct Sent {
    std::array<std::byte, 16>
        ethernet;               // and two bytes behind it; the head's mbuf may be another frame's by now
    const std::byte* datagram;  // of a frame, which nobody writes to before the next turn is prepared
  };
  std::vector<Sent> sent_;
  std::size_t left_ = 0;  // of the turn
  std::uint64_t received_ = 0;
  std::uint64_t starved_ = 0;
};

// Stands in front of the burst functions of a port, so that a bench sees all frames that pass.
class BurstDetour {
 public:
  // As DPDK's: the queue (here: `to`), the frames, how many at most; returns how many.
  using Burst = std::uint16_t (*)(void*, rte_mbuf**, std::uint16_t);

  // ethdev: started, one queue, functions in place that outlive this. `to`: the first argument of both. One
  // thread; detours end in the opposite order to that of their beginnings.
  BurstDetour(std::uint16_t ethdev, Burst on_receive, Burst on_transmit, void* to);
  BurstDetour(const BurstDetour&) = delete;
  BurstDetour& operator=(const BurstDetour&) = delete;
  ~BurstDetour();  // the functions behind it again

  // By the functions behind it.
  [[nodiscard]] std::uint16_t receive(rte_mbuf** frames, std::uint16_t count) const noexcept {
    return receive_behind_(receive_queues_[0], frames, count);
  }
  [[nodiscard]] std::uint16_t transmit(rte_mbuf** frames, std::uint16_t count) const noexcept {
    return transmit_behind_(transmit_queues_[0], frames, count);
  }

 private:
  std::uint16_t ethdev_;
  Burst receive_behind_;
  Burst transmit_behind_;
  void** receive_queues_;
  void** transmit_queues_;
  std::array<void*, 1> queues_;
};

}  // namespace tally::bench
