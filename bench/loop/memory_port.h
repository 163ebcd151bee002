#pragma once
// The in-memory port: an ethdev port whose bursts are served from memory on the same core, as a NIC serves
// them after its DMA went to the L3 cache. Receive takes the oldest mbuf of a ring of several MiB, writes the
// 98 bytes of headers that were prepared for it, reads the payload once, and puts a fresh mbuf from the
// mempool behind the others; transmit reads every header, checks the result, and frees.
//
// DPDK's headers for drivers are not packaged, so this takes the place of the burst functions of a port that
// exists: net_vhost, whose capabilities are a NIC's (segments, UDP checksum verdicts, mbufs of its own) and
// which without a guest does nothing.

#include <array>
#include <cstdint>
#include <vector>

#include "traffic.h"

struct rte_mbuf;
struct rte_mempool;

namespace tally::bench {

struct MemoryPortOptions {
  std::uint16_t ethdev = 0;  // started; queue 0 is taken over
  std::size_t index = 0;     // as Traffic numbers ports
  std::uint32_t descriptors = 0;
  rte_mempool* frames = nullptr;  // every mbuf painted
  bool read_payload = true;
  bool check = true;  // false: what is transmitted is not a result (cost of the port alone)
};

class MemoryPort {
 public:
  // traffic: outlives the port.
  MemoryPort(const MemoryPortOptions& options, Traffic& traffic);
  MemoryPort(const MemoryPort&) = delete;
  MemoryPort& operator=(const MemoryPort&) = delete;
  ~MemoryPort();  // the ethdev must not be used any more

  // Makes the headers of the frames that lie in the ring now, that is of its next turn, which must be
  // complete before this is called again.
  void prepare() noexcept;
  // The i-th frame of that turn: its headers, and its values.
  [[nodiscard]] const std::byte* headers(std::size_t i) const noexcept { return prepared_[i].bytes.data(); }
  [[nodiscard]] std::byte* values(std::size_t i) const noexcept;
  [[nodiscard]] std::uint64_t received() const noexcept { return received_; }
  // Receive bursts that found the mempool empty.
  [[nodiscard]] std::uint64_t starved() const noexcept { return starved_; }

 private:
  std::uint16_t receive(rte_mbuf** frames, std::uint16_t count) noexcept;
  std::uint16_t transmit(rte_mbuf** frames, std::uint16_t count) noexcept;

  MemoryPortOptions options_;
  Traffic& traffic_;
  std::vector<rte_mbuf*> ring_;  // full; oldest at head_
  std::size_t head_ = 0;
  struct alignas(64) Headers {
    std::array<std::byte, Traffic::kHeaders> bytes;
  };
  std::vector<Headers> prepared_;  // as ring_
  std::uint64_t received_ = 0;
  std::uint64_t starved_ = 0;
  std::array<void*, 1> queue_;  // what ethdev passes to the burst functions
};

}  // namespace tally::bench
