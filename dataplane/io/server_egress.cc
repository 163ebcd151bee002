#include "server_egress.h"

#include <array>

namespace tally {

ServerEgress::ServerEgress(std::size_t ports, const ServerQueueOptions& options, Egress& egress,
                           CoreStatistics& statistics)
    : queues_(ports, ServerQueue<rte_mbuf*>(options)), egress_(egress), statistics_(statistics) {}

void ServerEgress::push(PortIndex port, rte_mbuf* m, JobId job, std::uint8_t priority) noexcept {
  std::array<rte_mbuf*, 2> room{};
  for (rte_mbuf* frame : egress_.alter(port, m, room)) {
    ++waiting_;
    if (const auto away = queues_[raw(port)].push(frame, job, priority, frame->pkt_len)) {
      --waiting_;
      ++statistics_.server_refused;
      drop(*away);
    }
  }
  statistics_.server_queued = waiting_;
}

std::size_t ServerEgress::drain() noexcept {
  using Queue = ServerQueue<rte_mbuf*>;
  std::size_t sent = 0;
  for (std::size_t p = 0; p < queues_.size(); ++p) {
    Queue& queue = queues_[p];
    std::array<rte_mbuf*, Queue::kMostAtOnce> frames;
    while (const std::size_t n = queue.next(frames)) {
      const std::size_t taken =
          egress_.offer(PortIndex{static_cast<std::uint16_t>(p)}, std::span{frames}.first(n));
      queue.sent(taken);
      sent += taken;
      if (taken < n) break;
    }
  }
  waiting_ -= sent;
  statistics_.to_servers += sent;
  statistics_.server_queued = waiting_;
  return sent;
}

void ServerEgress::clear() noexcept {
  for (ServerQueue<rte_mbuf*>& queue : queues_) {
    rte_mbuf* m = nullptr;
    while (queue.next({&m, 1}) != 0) {
      queue.sent(1);
      drop(m);
    }
  }
  waiting_ = 0;
  statistics_.server_queued = 0;
}

}  // namespace tally
