#pragma once
// A port of the kernel before DPDK opens it: its arguments completed, its interface looked at.

#include "kernel_interface.h"
#include "port.h"
#include "tally/error.h"

namespace tally {

struct ProbedDevice;

// Does nothing for other devices. What will cost frames is warned of in DPDK's log.
[[nodiscard]] Result<void> prepare_kernel_port(const PortOptions& options, ProbedDevice& device);

// Its receive queue was set up.
void note_xdp(const std::string& interface);

}  // namespace tally
