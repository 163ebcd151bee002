#pragma once
// The ways out of one data core: a transmit queue of its own on a port, or the core that has one. Owner: the
// core.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpdk/impaired_way.h"
#include "dpdk/mbuf.h"
#include "dpdk/port.h"
#include "impair/faults.h"
#include "io/core_statistics.h"
#include "io/trace.h"
#include "server/server_queue.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::io {

// Where frames of a core for a port go.
struct EgressPort {
  dpdk::PortTraits traits;
  std::uint16_t queue = 0;  // the core's own, if via is null
  rte_ring* via = nullptr;  // to the core that sends for this one
  impair::ImpairStream impair{};
};

inline constinit const std::atomic<TraceTap*> kNoTap{nullptr};

class Egress {
 public:
  // tap: what leaves is told to it, if there is one; outlives the egress.
  Egress(const std::vector<EgressPort>& ports, CoreStatistics& statistics, std::span<PortTraffic> traffic,
         const std::atomic<TraceTap*>& tap = kNoTap);

  [[nodiscard]] const dpdk::PortTraits& traits(PortIndex port) const noexcept {
    return boxes_[raw(port)].traits;
  }
  // Ports that take an mbuf that goes to other ports as well: bitmap of those below 64.
  [[nodiscard]] std::uint64_t sharing_ports() const noexcept { return sharing_; }
  // Ports that take frames of several segments: the same.
  [[nodiscard]] std::uint64_t segment_ports() const noexcept { return segments_; }

  // Before: the core owns `m`, to be sent on `port`, which exists. After: its outbox, or another core's ring.
  void push(PortIndex port, rte_mbuf* m) noexcept;
  // Sends what waits.
  void flush() noexcept;
  // Before: the core owns `frames`, at most kOutbox, to be sent on `port` after what was pushed. After: the
  // port, or the ring of the core that sends for this one, or the delay of `impair`, owns the first of them,
  // as many as are returned; the core still owns the others. They have been through alter() before.
  [[nodiscard]] std::size_t offer(PortIndex port, std::span<rte_mbuf*> frames) noexcept;
  // What `impair` makes of a frame that will be offered to `port`, asked once for each: lost, doubled or
  // corrupted. Before: the core owns `m`. After: it owns the frames returned, of `room`. None, and counted as
  // refused: the port cannot hold it.
  [[nodiscard]] std::span<rte_mbuf*> alter(PortIndex port, rte_mbuf* m,
                                           std::span<rte_mbuf*, 2> room) noexcept;

  // The time for `impair`, at the start of each turn; then pushes what it kept and whose time has come.
  // Returns how many frames those were.
  std::size_t begin(TimeNs now) noexcept;
  // When begin() has a frame that waits on purpose; kNever: none does.
  [[nodiscard]] TimeNs next_due() const noexcept;
  // Drops what waits on purpose.
  void clear() noexcept;
  // Other faults for a port; what waited in the way that is given back is lost. Nothing happens if another core
  // sends for this one.
  void exchange(dpdk::PortWays& ways) noexcept;

  // Frames sent in one call: the results of two receive bursts, at most.
  static constexpr std::size_t kOutbox = 64;

 private:
  struct alignas(64) Outbox {
    dpdk::PortTraits traits;
    std::uint16_t queue = 0;
    bool detour = false;  // via or way, or `most` is a limit
    std::uint32_t most =
        UINT32_MAX;  // bytes of a frame: af_xdp copies it into an mbuf of its own, and does not look
    std::size_t count = 0;
    rte_ring* via = nullptr;
    std::unique_ptr<dpdk::ImpairedWay> way;  // null: not impaired, or by the core that sends for this one
    std::array<rte_mbuf*, kOutbox> frames{};
    std::array<std::uint32_t, kOutbox> bytes{};  // of each; once sent, a frame is not ours to ask
    PortTraffic* traffic = nullptr;
  };
  void note_ways() noexcept;
  void push_elsewhere(Outbox& box, PortIndex port, rte_mbuf* m) noexcept;
  void add(Outbox& box, rte_mbuf* m) noexcept;
  std::size_t release(Outbox& box) noexcept;
  void send_all(Outbox& box) noexcept;
  void count(Outbox& box, std::span<const std::uint32_t> bytes) noexcept;
  void trace(const Outbox& box, std::span<rte_mbuf* const> frames) const noexcept;

  std::vector<Outbox> boxes_;       // by PortIndex
  std::vector<std::size_t> timed_;  // boxes whose way keeps frames for later; has room for all
  TimeNs now_ = 0;
  std::uint64_t sharing_ = 0;
  std::uint64_t segments_ = 0;
  CoreStatistics& statistics_;
  const std::atomic<TraceTap*>& tap_;
};

// The way to external servers: in front of each port a queue of its own, strict by class and fair per job,
// from which the port gets what it takes after everything else was sent. Owner: the core.

class ServerEgress {
 public:
  // A queue for each of `ports`. egress, statistics: outlive it.
  ServerEgress(std::size_t ports, const server::ServerQueueOptions& options, Egress& egress,
               CoreStatistics& statistics);
  ServerEgress(const ServerEgress&) = delete;
  ServerEgress& operator=(const ServerEgress&) = delete;
  ~ServerEgress() { clear(); }

  // Before: the core owns `m`, a frame of `job` for `port`, which exists. After: the queue owns it; the
  // mempool has what gave way or found no place, which is counted, and what was lost on purpose;
  // a duplicate on purpose has a place of its own.
  void push(PortIndex port, rte_mbuf* m, JobId job, std::uint8_t priority) noexcept;
  // Frames that wait, before all ports.
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_; }
  // Gives the ports what they take. Returns how many frames they took.
  std::size_t drain() noexcept;
  // Drops what waits.
  void clear() noexcept;

 private:
  std::vector<server::ServerQueue<rte_mbuf*>> queues_;  // by PortIndex
  std::size_t waiting_ = 0;
  Egress& egress_;
  CoreStatistics& statistics_;
};

}  // namespace tally::io
