#pragma once
// DPDK's environment in a program that sums gradients and otherwise knows nothing of DPDK.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::dpdk_transport {

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

// The device of a worker: what stands behind `dpdk:` in TALLY_TRANSPORT, taken apart and checked. Pure.

struct WorkerDevice {
  std::string name{};       // net_memif0, or a PCI address
  std::string arguments{};  // for the driver, with a leading comma unless empty; without those below
  bool pci = false;
  bool memif = false;
  std::uint16_t queues = 1;     // each way; the key `queues=` is ours and works with every device
  std::string socket{};         // memif: where the daemon listens
  bool abstract_socket = true;  // memif's default: a name, not a file

  // What ethdev is given. private_socket: the abstract name at which MemifRelay waits for the driver.
  [[nodiscard]] std::string driver_string(std::string_view private_socket) const;
};

// Errors name the key, its value and what would be right.
[[nodiscard]] Result<WorkerDevice> parse_worker_device(std::string_view text, std::uint32_t mtu);

}  // namespace tally::dpdk_transport
