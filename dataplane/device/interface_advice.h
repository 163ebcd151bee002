#pragma once
// What is wrong with a network interface of the kernel before a port is opened on it. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "device/kernel_device.h"

namespace tally::device {

// As the kernel says; what it did not say is as it stands here.
struct InterfaceFacts {
  bool exists = false;
  bool up = true;
  bool loopback = false;
  std::uint32_t mtu = 0;     // 0: not known
  bool merges = false;       // GRO or LRO is on: frames larger than mtu
  bool has_ipv4 = false;     // an address of the host's own
  std::uint32_t queues = 1;  // that receive
  bool combined = true;      // they transmit, too: what ethtool calls them
};

struct InterfaceAdvice {
  std::string error{};                  // why it cannot be used and what to do; empty: it can
  std::vector<std::string> warnings{};  // what will cost frames, with the command that mends it
};

// "eth0, eth1", or "none".
[[nodiscard]] std::string listed(const std::vector<std::string>& names);

// present: the interfaces there are.
[[nodiscard]] InterfaceAdvice advise(const KernelDevice& device, std::uint32_t mtu,
                                     const InterfaceFacts& facts, const std::vector<std::string>& present);

}  // namespace tally::device
