#pragma once
// The way to external servers: in front of each port a queue of its own, strict by class and fair per job,
// from which the port gets what it takes after everything else was sent. Owner: the core.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "data_plane.h"
#include "egress.h"
#include "mbuf.h"
#include "server_queue.h"
#include "tally/ids.h"

namespace tally {

class ServerEgress {
 public:
  // A queue for each of `ports`. egress, statistics: outlive it.
  ServerEgress(std::size_t ports, const ServerQueueOptions& options, Egress& egress,
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
  std::vector<ServerQueue<rte_mbuf*>> queues_;  // by PortIndex
  std::size_t waiting_ = 0;
  Egress& egress_;
  CoreStatistics& statistics_;
};

}  // namespace tally
