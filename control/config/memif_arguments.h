#pragma once
// What a memif port of the box must say (arguments as in DPDK 22.11).

#include <string_view>
#include <vector>

#include "port_device.h"

namespace tally {

inline constexpr std::string_view kMemifArguments =
    "role id socket socket-abstract bsize rsize mac secret zero-copy";

// Each value by itself. Whether bsize carries the MTU is a matter of the port: check_ports.h.
void check_memif(const PortDevice& device, std::vector<Complaint>& complaints);

}  // namespace tally
