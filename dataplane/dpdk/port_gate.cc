#include "dpdk/port_gate.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include <rte_config.h>

namespace tally::dpdk {

static_assert(kMostPorts == RTE_MAX_ETHPORTS);

constinit std::array<PortGate, kMostPorts> PortGate::gates{};

bool PortGate::empty() const noexcept {
  return std::ranges::none_of(inside_, [](const auto& side) {
    return std::ranges::any_of(side,
                               [](const Flag& flag) { return flag.value.load(std::memory_order_seq_cst); });
  });
}

// A data thread may have been interrupted in the middle of a burst by the scheduler: so this sleeps.
void PortGate::close() noexcept {
  shut();
  while (!empty()) std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace tally::dpdk
