#include "io/ingress.h"

#include <algorithm>
#include <array>

#include "io/core_statistics.h"

namespace tally::io {

Ingress::Ingress(const std::vector<IngressQueue>& queues, CoreStatistics& statistics,
                 std::span<PortTraffic> traffic)
    : statistics_(statistics), traffic_(traffic) {
  for (const IngressQueue& q : queues) {
    queues_.push_back({.way = dpdk::impaired_way(q.impair, q.traits.frames, statistics,
                                                 traffic[raw(q.index)].impaired_in, statistics.impaired_in),
                       .from = q});
  }
}

std::span<rte_mbuf*> Ingress::take(std::span<rte_mbuf*> room, std::size_t& received, TimeNs now) noexcept {
  Queue& queue = queues_[next_];
  rotate();
  if (queue.way != nullptr) [[unlikely]]
    return impaired(queue, room, received, now);
  return received_by(queue.from, room, received);
}

// The next burst from the port.
std::span<rte_mbuf*> Ingress::received_by(const IngressQueue& queue, std::span<rte_mbuf*> room,
                                          std::size_t& received) noexcept {
  const auto burst = dpdk::receive(queue.traits.id, queue.queue, room);
  received = burst.size();
  if (burst.empty()) return burst;
  ++statistics_.bursts;
  statistics_.frames_in += burst.size();
  std::size_t kept = 0;
  std::uint64_t bytes = 0;
  for (rte_mbuf* arrived : burst) {
    bytes += arrived->pkt_len;
    const bool good = queue.traits.vouches &&
                      (arrived->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD;
    rte_mbuf* const m = dpdk::made_writable(arrived, queue.traits.frames, statistics_);
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

// Nothing is received before all that is due has left, so what passes through finds room (kPassing).
std::span<rte_mbuf*> Ingress::impaired(Queue& queue, std::span<rte_mbuf*> room, std::size_t& received,
                                       TimeNs now) noexcept {
  dpdk::ImpairedWay& way = *queue.way;
  const std::size_t before = way.leave(now, room).size();
  received = 0;
  if (before != room.size()) {
    for (rte_mbuf* m : received_by(queue.from, room.subspan(before), received)) {
      std::array<rte_mbuf*, 2> altered{};
      for (rte_mbuf* frame : way.alter(m, altered)) way.hold(frame, now);
    }
  }
  received += before;
  return room.first(before + way.leave(now, room.subspan(before)).size());
}

TimeNs Ingress::next_due() const noexcept {
  TimeNs due = kNever;
  for (const Queue& queue : queues_) {
    if (queue.way != nullptr) due = std::min(due, queue.way->next_due());
  }
  return due;
}

void Ingress::clear() noexcept {
  for (const Queue& queue : queues_) {
    if (queue.way != nullptr) queue.way->clear();
  }
}

void Ingress::exchange(dpdk::PortWays& ways) noexcept {
  auto other = ways.in.begin();
  for (Queue& queue : queues_) {
    if (queue.from.index != ways.port) continue;
    queue.way.swap(*other);
    if (*other != nullptr) (*other)->lose();
    ++other;
  }
}

}  // namespace tally::io
