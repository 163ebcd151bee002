#pragma once
// Stands in front of the burst functions of a port, so that a bench sees all frames that pass.

#include <array>
#include <cstdint>

struct rte_mbuf;

namespace tally::bench {

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
