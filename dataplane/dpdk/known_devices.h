#pragma once
// What to say about a device that cannot be opened.

#include <string>
#include <string_view>

namespace tally {

// What is wrong with the name of a virtual device, what to install, or which drivers there are. Empty if its
// driver is installed.
[[nodiscard]] std::string why_not_virtual(std::string_view name);

// The network devices on the PCI bus and their kernel drivers, for people.
[[nodiscard]] std::string pci_devices();

}  // namespace tally
