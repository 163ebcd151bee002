#pragma once
// The ways out of one data core: a transmit queue of its own on a port, or the core that has one. Owner: the
// core.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data_plane.h"
#include "impair.h"
#include "mbuf.h"
#include "port.h"
#include "tally/ids.h"

namespace tally {

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
  // Before: the core owns `frames`, at most kOutbox, to be sent on `port` after what was pushed. After: the
  // port, or the ring of the core that sends for this one, owns the first of them, as many as are returned;
  // the core still owns the others. Loses nothing on purpose: see lose().
  [[nodiscard]] std::size_t offer(PortIndex port, std::span<rte_mbuf*> frames) noexcept;
  // Whether a frame for `port` shall be lost on purpose, which is counted; asked once for each.
  [[nodiscard]] bool lose(PortIndex port) noexcept { return lose(boxes_[raw(port)]); }

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
  // The core that sends for this one loses frames itself.
  [[nodiscard]] bool lose(Outbox& box) noexcept {
    if (box.via != nullptr || !box.impair.on() || !box.impair.lose()) return false;
    ++statistics_.impaired_out;
    return true;
  }
  void send_all(Outbox& box) noexcept;
  void count(Outbox& box, std::span<const std::uint32_t> bytes) noexcept;

  std::vector<Outbox> boxes_;  // by PortIndex
  std::uint64_t sharing_ = 0;
  MbufCounters& mbufs_;
  MbufCounters ring_mbufs_;  // what rings between threads refuse is not a port's refusal
  CoreStatistics& statistics_;
};

}  // namespace tally
