#pragma once
// The device of a worker: what stands behind `dpdk:` in TALLY_TRANSPORT, taken apart and checked. Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "tally/error.h"

namespace tally {

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

// Errors name the key, its value and what would be right. frame_bytes: the largest frame.
[[nodiscard]] Result<WorkerDevice> parse_worker_device(std::string_view text, std::uint32_t frame_bytes);

}  // namespace tally
