#pragma once
// DPDK's environment in a program that sums gradients and otherwise knows nothing of DPDK.

#include <cstdint>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally {

// All memory of the environment: ordinary memory for virtual devices, address space until mempools use it;
// hugepages, if enough are free, for a card.
inline constexpr std::uint64_t kWorkerMemory = 128 << 20;

// Starts it if this process has none yet: on a thread of its own, because rte_eal_init() pins its caller, and
// with signals blocked, because DPDK's threads inherit the mask and must not take the program's signals. It
// lives until the process ends. A program that has started DPDK itself keeps its own, and we use it. pci:
// devices to allow; those of the first call count. Fails in a child of fork(): hardware queues and shared
// memory belong to the parent. Returns whether there are hugepages. Any thread.
[[nodiscard]] Result<bool> worker_eal(std::vector<std::string> pci);

// Makes the calling thread known to DPDK until it ends (its own cache in each mempool). Needs worker_eal().
[[nodiscard]] Result<void> register_worker_thread();

}  // namespace tally
