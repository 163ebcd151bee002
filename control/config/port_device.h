#pragma once
// The `device` of a port: a PCI address or a virtual device of DPDK with its arguments.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/diagnostic.h"

namespace tally::config {

enum class DeviceKind : std::uint8_t { kPci, kMemif, kRing, kNull, kAfPacket, kAfXdp, kTap, kPcap };

struct DeviceArgument {
  std::string key;
  std::string value;
  std::uint32_t offset = 0;  // of the argument in PortDevice::text
  bool operator==(const DeviceArgument&) const = default;
};

struct PortDevice {
  std::string text{};  // as DPDK takes it: for --vdev, or for -a when kind is kPci
  DeviceKind kind = DeviceKind::kNull;
  std::string name{};  // net_memif0, or 0000:3b:00.0 with the domain filled in
  std::vector<DeviceArgument> arguments{};

  [[nodiscard]] const DeviceArgument* find(std::string_view key) const noexcept;
  // The value of an argument, or what DPDK takes when it is absent.
  [[nodiscard]] std::string value_or(std::string_view key, std::string_view otherwise) const;
  bool operator==(const PortDevice&) const = default;
};

// On failure at least one complaint is added; the device is then not to be used.
[[nodiscard]] PortDevice parse_device(const std::string& text, std::vector<Complaint>& complaints);

// What memif takes when the argument is absent (DPDK 22.11).
inline constexpr std::string_view kMemifSocket = "/run/memif.sock";
inline constexpr std::uint32_t kMemifBufferBytes = 2048;

// What a memif port of the box must say (arguments as in DPDK 22.11).

inline constexpr std::string_view kMemifArguments =
    "role id socket socket-abstract bsize rsize mac secret zero-copy";

// Each value by itself. Whether bsize carries the MTU is a matter of the port: ports_section.cc.
void check_memif(const PortDevice& device, std::vector<Complaint>& complaints);

}  // namespace tally::config
