#include "ingress.h"

#include <utility>

#include "data_plane.h"

namespace tally {

Ingress::Ingress(std::vector<IngressQueue> queues, rte_mempool* copies, MbufCounters& mbufs,
                 CoreStatistics& statistics, std::span<PortTraffic> traffic)
    : queues_(std::move(queues)),
      copies_(copies),
      mbufs_(mbufs),
      statistics_(statistics),
      traffic_(traffic) {}

std::span<rte_mbuf*> Ingress::take(std::span<rte_mbuf*> room, std::size_t& received) noexcept {
  IngressQueue& queue = queues_[next_];
  rotate();
  const auto burst = receive(queue.port, queue.queue, room);
  received = burst.size();
  if (burst.empty()) return burst;
  ++statistics_.bursts;
  statistics_.frames_in += burst.size();
  std::size_t kept = 0;
  std::uint64_t bytes = 0;
  for (rte_mbuf* arrived : burst) {
    bytes += arrived->pkt_len;
    if (queue.impair.on() && queue.impair.lose()) {
      ++statistics_.impaired_in;
      drop(arrived);
      continue;
    }
    const bool good =
        queue.vouches && (arrived->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    rte_mbuf* const m = made_writable(arrived, copies_, mbufs_);
    if (m == nullptr) continue;
    // What else stands in these fields is the sender's on a port that hands over the mbuf itself.
    m->port = raw(queue.index);
    m->ol_flags = good ? RTE_MBUF_F_RX_L4_CKSUM_GOOD : 0;
    room[kept++] = m;
  }
  PortTraffic& traffic = traffic_[raw(queue.index)];
  traffic.frames_in += burst.size();
  traffic.bytes_in += bytes;
  return room.first(kept);
}

}  // namespace tally
