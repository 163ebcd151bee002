#pragma once
// The ways into one data core: the receive queues that it reads. Owner: the core.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dpdk/impaired_way.h"
#include "dpdk/mbuf.h"
#include "dpdk/port.h"
#include "impair/faults.h"
#include "pipeline/frame.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::io {

struct CoreStatistics;
struct PortTraffic;

struct IngressQueue {
  dpdk::PortTraits traits;  // copies of frames that arrive shared are of its mempool, and those of `impair`
  std::uint16_t queue = 0;
  PortIndex index{};
  impair::ImpairStream impair{};
};

// A view for the pipeline, valid until m changes hands or shape. The pipeline writes only into frames of one
// segment. m: from Ingress, so m->port is our PortIndex, and ol_flags says nothing but what a trusted port
// said of the UDP checksum.
[[nodiscard]] inline pipeline::Frame frame_of(const rte_mbuf* m) noexcept {
  return {.data = dpdk::data_of(m),
          .length = m->data_len,
          .capacity = static_cast<std::uint32_t>(m->buf_len - m->data_off),
          .port = PortIndex{m->port},
          .single_segment = m->nb_segs == 1,
          .checksum_good = m->ol_flags == RTE_MBUF_F_RX_L4_CKSUM_GOOD};
}

class Ingress {
 public:
  Ingress(const std::vector<IngressQueue>& queues, CoreStatistics& statistics,
          std::span<PortTraffic> traffic);

  [[nodiscard]] std::size_t queues() const noexcept { return queues_.size(); }
  // The next frames of the next queue: the caller owns them, may write those of one segment, and finds in
  // m->port and m->ol_flags what frame_of() says. Some of those received may be missing: shared and no mbuf
  // for the copy, or impaired. received: all of them, and those of an impaired queue whose time has come.
  // There is at least one queue, and room.
  [[nodiscard]] std::span<rte_mbuf*> take(std::span<rte_mbuf*> room, std::size_t& received,
                                          TimeNs now) noexcept;
  // The next turn begins one queue further: what comes last in a turn finds rings and mempools exhausted
  // first, and must not be the same member for ever.
  void rotate() noexcept {
    if (++next_ >= queues_.size()) next_ = 0;
  }

  // When take() has a frame that waits on purpose; kNever: none does.
  [[nodiscard]] TimeNs next_due() const noexcept;
  // Drops what waits on purpose.
  void clear() noexcept;
  // Other faults for the queues of a port; what waited in the ways that are given back is lost.
  void exchange(dpdk::PortWays& ways) noexcept;

 private:
  struct Queue {
    std::unique_ptr<dpdk::ImpairedWay> way;  // null: not impaired
    IngressQueue from;
  };
  [[nodiscard]] std::span<rte_mbuf*> received_by(const IngressQueue& queue, std::span<rte_mbuf*> room,
                                                 std::size_t& received) noexcept;
  [[nodiscard]] std::span<rte_mbuf*> impaired(Queue& queue, std::span<rte_mbuf*> room, std::size_t& received,
                                              TimeNs now) noexcept;

  std::vector<Queue> queues_;
  std::size_t next_ = 0;
  CoreStatistics& statistics_;
  std::span<PortTraffic> traffic_;  // by PortIndex
};

}  // namespace tally::io
