#pragma once
// What the test stands on: EAL without hugepages, devices or files, mempools, and cables. A cable is a pair
// of net_ring ports, one at the worker and one at the box; what is sent at one end is received at the other,
// as the very same mbuf.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ring_mbuf.h"
#include "rng.h"

#include <rte_mempool.h>
#include <rte_ring.h>

namespace tally::e2e {

// Starts EAL in this process, once. Empty, or why it did not start.
[[nodiscard]] const std::string& start_eal();

struct FreePool {
  void operator()(rte_mempool* pool) const noexcept { rte_mempool_free(pool); }
};
struct FreeRing {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};
using OwnedPool = std::unique_ptr<rte_mempool, FreePool>;
using OwnedRing = std::unique_ptr<rte_ring, FreeRing>;

// Both end the process when there is no memory. Names are unique among what lives. data_room: bytes behind
// the headroom; 0: for indirect mbufs only.
[[nodiscard]] OwnedPool make_pool(const std::string& name, unsigned mbufs, std::uint16_t data_room);
[[nodiscard]] OwnedRing make_ring(const std::string& name, unsigned size);

// Empty when every mbuf is in its mempool exactly once, otherwise what is wrong. rte_mempool_in_use_count()
// alone cannot tell: a buffer freed twice hides one that was lost.
[[nodiscard]] std::string audit(rte_mempool* pool);

class Cable {
 public:
  // One queue towards the box, `queues` towards the worker, each with room for `size` - 1 frames. segments:
  // request MULTI_SEGS at the box's end. pool: for the receive queues' set-up only.
  Cable(const std::string& name, std::uint16_t queues, unsigned size, bool segments, rte_mempool* pool);
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;
  ~Cable();

  [[nodiscard]] std::uint16_t worker_port() const noexcept { return worker_port_; }
  [[nodiscard]] std::uint16_t box_port() const noexcept { return box_port_; }
  // The box's end takes frames of several segments.
  [[nodiscard]] bool segments() const noexcept { return segments_; }

 private:
  OwnedRing up_;
  std::vector<OwnedRing> down_;
  std::uint16_t worker_port_ = 0;
  std::uint16_t box_port_ = 0;
  bool segments_ = false;
};

// Frames on their way to vanish; the same ones in every run.
struct Loss {
  Rng rng;
  double probability = 0;
  std::uint64_t lost = 0;
};

// Frames of one loop for one transmit queue, until the end of the burst.
class Outbox {
 public:
  Outbox(std::uint16_t port, std::uint16_t queue, Loss& loss, MbufCounters& counters)
      : port_(port), queue_(queue), loss_(loss), counters_(counters) {}

  // Before: the caller owns `m`. After: this.
  void push(rte_mbuf* m) noexcept;
  // Returns how many frames it gave away.
  std::size_t flush() noexcept;

 private:
  std::uint16_t port_;
  std::uint16_t queue_;
  Loss& loss_;
  MbufCounters& counters_;
  std::array<rte_mbuf*, 64> frames_{};
  std::size_t count_ = 0;
  std::size_t gone_ = 0;  // since the last flush
};

}  // namespace tally::e2e
