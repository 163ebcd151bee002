#pragma once
// From the text of the configuration to a device of ethdev.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernel_device.h"
#include "memif_door.h"
#include "port.h"
#include "tally/error.h"

namespace tally {

struct ProbedDevice {
  std::string name{};    // of ethdev
  std::string device{};  // for rte_dev_probe()
  bool memif = false;
  std::uint32_t id = 0;               // of the memif
  std::shared_ptr<MemifDoor> door{};  // of a memif server: it listens already
  KernelDriver kernel{};
  std::string interface {};  // of a kernel port
};

// With a tag, without FCS.
[[nodiscard]] std::uint32_t frame_bytes(const PortOptions& options) noexcept;

// Checks what the driver would not, or not well. Opens a memif server's door.
[[nodiscard]] Result<ProbedDevice> prepare_device(const PortOptions& options);

// Makes the device and returns ethdev's number of it.
[[nodiscard]] Result<std::uint16_t> probe_device(const PortOptions& options, const ProbedDevice& device);

// A memif server that was closed keeps its device (Port::close): the next one of its name gets another.
void park_device(std::string_view device);

}  // namespace tally
