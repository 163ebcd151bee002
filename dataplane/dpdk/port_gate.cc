#include "dpdk/port_gate.h"

#include <chrono>
#include <thread>

#include <rte_config.h>

namespace tally::dpdk {

static_assert(kMostPorts == RTE_MAX_ETHPORTS);

constinit std::array<PortGate, kMostPorts> PortGate::gates{};

// A data thread may have been interrupted in the middle of a burst by the scheduler: so this sleeps.
void PortGate::close() noexcept {
  open_.store(false, std::memory_order_seq_cst);
  for (auto& side : inside_) {
    for (Flag& flag : side) {
      while (flag.value.load(std::memory_order_seq_cst))
        std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace tally::dpdk
