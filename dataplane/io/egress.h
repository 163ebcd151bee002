#pragma once
// The ways out of one data core: a transmit queue of its own on a port, or the core that has one. Owner: the
// core.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "impair.h"
#include "mbuf.h"
#include "port.h"
#include "tally/ids.h"

namespace tally {

struct CoreStatistics;
struct PortTraffic;

// Where frames of a core for a port go.
struct EgressPort {
  PortTraits traits;
  std::uint16_t queue = 0;  // the core's own, if via is null
  rte_ring* via = nullptr;  // to the core that sends for this one
  Impair impair;
};

class Egress {
 public:
  Egress(std::vector<EgressPort> ports, MbufCounters& mbufs, CoreStatistics& statistics,
         std::span<PortTraffic> traffic);

  [[nodiscard]] const PortTraits& traits(PortIndex port) const noexcept { return boxes_[raw(port)].traits; }
  // Ports that take an mbuf that goes to other ports as well: bitmap of those below 64.
  [[nodiscard]] std::uint64_t sharing_ports() const noexcept { return sharing_; }

  // Before: the core owns `m`, to be sent on `port`, which exists. After: its outbox, or another core's ring.
  void push(PortIndex port, rte_mbuf* m) noexcept;
  // Sends what waits.
  void flush() noexcept;

  // Frames sent in one call: the results of two receive bursts, at most.
  static constexpr std::size_t kOutbox = 64;

 private:
  struct alignas(64) Outbox {
    PortTraits traits;
    std::uint16_t queue = 0;
    std::size_t count = 0;
    rte_ring* via = nullptr;
    Impair impair;
    std::array<rte_mbuf*, kOutbox> frames{};
    std::array<std::uint32_t, kOutbox> bytes{};  // of each; once sent, a frame is not ours to ask
    PortTraffic* traffic = nullptr;
  };
  void send_all(Outbox& box) noexcept;

  std::vector<Outbox> boxes_;  // by PortIndex
  std::uint64_t sharing_ = 0;
  MbufCounters& mbufs_;
  MbufCounters ring_mbufs_;  // what rings between threads refuse is not a port's refusal
  CoreStatistics& statistics_;
};

}  // namespace tally
