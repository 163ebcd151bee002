#pragma once
// Cables: pairs of net_ring ports, one at the workers and one at the box. What is sent at one end is received
// at the other, as the very same mbuf.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <rte_mempool.h>
#include <rte_ring.h>

namespace tally::e2e {

struct CableOptions {
  std::string name;
  std::uint16_t up = 1;    // queues towards the box
  std::uint16_t down = 1;  // queues towards the workers
  unsigned size = 1024;    // of each queue; one less is its room
  // What the box is told of its end, whatever net_ring is: whether it takes segments, and whether it is a
  // port that never hands the mbuf itself to a reader. The workers only read, so both may be claimed.
  bool segments = true;
  bool copies = false;
};

struct FreeCableRing {
  void operator()(rte_ring* ring) const noexcept { rte_ring_free(ring); }
};
using CableRing = std::unique_ptr<rte_ring, FreeCableRing>;

class Cable {
 public:
  // pool: for the receive queues' set-up only. The box's end is made, but not configured.
  Cable(const CableOptions& options, rte_mempool* pool);
  Cable(const Cable&) = delete;
  Cable& operator=(const Cable&) = delete;
  ~Cable();  // after whoever adopted the box's end

  [[nodiscard]] const CableOptions& options() const noexcept { return options_; }
  [[nodiscard]] std::uint16_t worker_port() const noexcept { return worker_port_; }
  [[nodiscard]] std::uint16_t box_port() const noexcept { return box_port_; }

 private:
  CableOptions options_;
  std::vector<CableRing> up_;
  std::vector<CableRing> down_;
  std::uint16_t worker_port_ = 0;
  std::uint16_t box_port_ = 0;
};

}  // namespace tally::e2e
