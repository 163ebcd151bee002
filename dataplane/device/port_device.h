#pragma once
// The device of a port as a person writes it: a PCI address, or a virtual device of DPDK 22.11 with its
// arguments, "net_tap0,iface=tap0". The one parser of such texts, for tallyd, workers and benches. Pure.
//
// What a driver makes of its arguments: memif_device.h, kernel_device.h.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tally/net.h"

namespace tally::device {

// kOther: a virtual device that no file here knows; whether there is one, DPDK says.
enum class DeviceKind : std::uint8_t { kOther, kPci, kMemif, kRing, kNull, kAfPacket, kAfXdp, kTap, kPcap };

// Opened on an interface of the kernel or on files: kernel_device.h.
[[nodiscard]] constexpr bool is_kernel(DeviceKind kind) noexcept {
  return kind == DeviceKind::kAfPacket || kind == DeviceKind::kAfXdp || kind == DeviceKind::kTap ||
         kind == DeviceKind::kPcap;
}

// Ethernet header and one VLAN tag: what a frame has beside its IP packet, whose most bytes are the MTU.
inline constexpr std::uint32_t kEthernetBytes = sizeof(EthernetHeader) + sizeof(VlanTag);  // 18

// What is wrong with a port and what to do about it.
struct DeviceComplaint {
  std::string about;  // the argument, or the port's own key "mtu" or "queues"; empty: the device as a whole
  std::string message;
  std::string help;
  std::uint32_t offset = 0;  // bytes in the device's text to what is wrong
  bool operator==(const DeviceComplaint&) const = default;
};

using DeviceComplaints = std::vector<DeviceComplaint>;

struct DeviceArgument {
  std::string key;
  std::string value;
  std::uint32_t offset = 0;  // of the argument in the text that was parsed
  bool operator==(const DeviceArgument&) const = default;
};

struct PortDevice {
  std::string text{};  // as it was written
  DeviceKind kind = DeviceKind::kOther;
  std::string name{};                       // net_memif0, or 0000:3b:00.0 with the domain filled in
  std::vector<DeviceArgument> arguments{};  // keys are distinct

  [[nodiscard]] const DeviceArgument* find(std::string_view key) const noexcept;
  [[nodiscard]] bool has(std::string_view key) const noexcept { return find(key) != nullptr; }
  // The number that `key` has, or `otherwise` when it is absent. Complains of what is no whole number of
  // [lowest, highest], and returns nothing then.
  [[nodiscard]] std::optional<std::uint32_t> number(std::string_view key, std::uint32_t lowest,
                                                    std::uint32_t highest, std::uint32_t otherwise,
                                                    DeviceComplaints& complaints) const;
  // The name of a network interface, empty when absent. Complains of a name that the kernel cannot have.
  [[nodiscard]] std::string interface(std::string_view key, DeviceComplaints& complaints) const;
  // The argument goes to the driver as well.
  void add(std::string_view key, std::string_view value) {
    arguments.push_back({std::string(key), std::string(value)});
  }
  void remove(std::string_view key);
  // What DPDK takes: name and arguments.
  [[nodiscard]] std::string for_driver() const;
  // about: an argument that is there, or anything else.
  void complain(DeviceComplaints& complaints, std::string_view about, std::string message,
                std::string help) const;
  bool operator==(const PortDevice&) const = default;
};

// Complains of what no driver can take: an unknown device, an argument that its driver does not know (of a
// NIC only the driver can say), one that stands twice or has no value. The rest is in the result even so.
[[nodiscard]] PortDevice parse_device(std::string_view text, DeviceComplaints& complaints);

// Of a text that need not be right otherwise.
[[nodiscard]] DeviceKind kind_of(std::string_view text);

// net_memif, net_ring, ..., or pci.
[[nodiscard]] std::string driver_of(DeviceKind kind);

// net_memif, net_ring, ...: to be followed by a number.
[[nodiscard]] std::vector<std::string> device_names();
// Of a virtual device that is known here; else empty.
[[nodiscard]] std::vector<std::string> arguments_of(DeviceKind kind);

}  // namespace tally::device
