#pragma once
// What the kernel says of its network interfaces, and of what this process may do with them.

#include <string>
#include <vector>

#include "interface_advice.h"

namespace tally {

[[nodiscard]] InterfaceFacts facts_of(const std::string& interface);

// Names, in the kernel's order.
[[nodiscard]] std::vector<std::string> interfaces_present();

// "; this process lacks CAP_NET_RAW: ..." with what to do, or nothing when the driver has all rights it
// needs.
[[nodiscard]] std::string missing_rights(KernelDriver driver);

}  // namespace tally
