#pragma once
// What happens to frames that are not the pipeline's: the box answers for its own addresses and, inline, is a
// switch for its ports (docs/switch.md). Owner: the core that received the frame, whatever port it leaves by.

#include <cstdint>

#include "dpdk/mbuf.h"
#include "l2/box_answers.h"
#include "l2/forwarding.h"
#include "tally/ids.h"
#include "tally/time.h"

namespace tally::io {

class Egress;
struct CoreStatistics;

class L2Switch {
 public:
  // ports: of the box, at most MacTable::kPorts. hosts: shared by all cores. All outlive it.
  L2Switch(l2::BoxMode mode, const jobs::Box& box, std::size_t ports, l2::MacTable& hosts, Egress& egress,
           CoreStatistics& statistics) noexcept;

  // Before: the core owns `m`, of any number of segments, the first with a whole Ethernet header, and m->port
  // is our PortIndex. After: ports, other cores or a mempool. Counts exactly one fate.
  void handle(rte_mbuf* m, TimeNs now) noexcept;
  // Notes where the sender of `m` is: a frame that the box takes for itself.
  void learn(const rte_mbuf* m, TimeNs now) noexcept;

 private:
  void drop_as(rte_mbuf* m, l2::SwitchFate fate) noexcept;
  // The frame in one segment, to leave by `port`, of whose mempool a copy is; nullptr: dropped and counted.
  [[nodiscard]] rte_mbuf* whole(rte_mbuf* m, PortIndex port) noexcept;
  [[nodiscard]] bool claims_our_address(const rte_mbuf* m) const noexcept;
  [[nodiscard]] bool fits(const rte_mbuf* m, PortIndex port) const noexcept;
  [[nodiscard]] bool takes_form(const rte_mbuf* m, PortIndex port) const noexcept;
  void forward(rte_mbuf* m, PortIndex to) noexcept;
  void flood(rte_mbuf* m, PortIndex ingress) noexcept;
  void send_copies(std::uint64_t ports, const rte_mbuf* m) noexcept;
  void send_shared(std::uint64_t ports, rte_mbuf* m) noexcept;
  void push(PortIndex port, rte_mbuf* m) noexcept;

  l2::BoxMode mode_;
  jobs::Box box_;
  std::uint64_t ports_;  // bitmap
  Egress& egress_;
  CoreStatistics& statistics_;
  l2::SwitchCounters& counters_;
  l2::Forwarding forwarding_;
};

}  // namespace tally::io
