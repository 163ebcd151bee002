#pragma once
// From the text of the configuration to a device of ethdev.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/interface_advice.h"
#include "device/kernel_device.h"
#include "device/memif_device.h"
#include "dpdk/memif_door.h"
#include "tally/error.h"

namespace tally::dpdk {

struct PortOptions {
  std::string name{};    // ours, in counters and messages
  std::string device{};  // 0000:3b:00.0, or net_memif0,role=server,...
  bool pci = false;
  std::uint16_t mtu = 1500;
  std::uint16_t receive_queues = 1;
  // Wished: one for each data core; fewer if the device has fewer. Of a memif at most as many as receive
  // queues: both ends must have the same number each way, and the other one cannot be asked. Of a kernel
  // port exactly as many: it spreads frames over all pairs, and those without a reader would be lost.
  std::uint16_t transmit_queues = 1;
  std::uint16_t descriptors = 1024;  // per queue, wished
  std::uint32_t burst = 0;           // frames that may arrive before we look; 0: nobody knows
  bool checksum = false;             // trust the port's verdict on UDP checksums, if it gives one
  bool promiscuous = true;           // a virtual device has no multicast filter
};

struct ProbedDevice {
  std::string name{};    // of ethdev
  std::string device{};  // for rte_dev_probe()
  device::DeviceKind kind = device::DeviceKind::kOther;
  std::uint32_t id = 0;               // of the memif
  std::shared_ptr<MemifDoor> door{};  // of a memif server: it listens already
  std::string interface {};           // of a kernel port
  unsigned index = 0;                 // the kernel's number of it
};

// With a tag, without FCS.
[[nodiscard]] std::uint32_t frame_bytes(const PortOptions& options) noexcept;

// `name`, or the next name that means the same driver, of which ethdev has no device.
[[nodiscard]] std::string free_device_name(const std::string& name);

// Checks what the driver would not, or not well. Opens a memif server's door.
[[nodiscard]] Result<ProbedDevice> prepare_device(const PortOptions& options);

// Makes the device and returns ethdev's number of it.
[[nodiscard]] Result<std::uint16_t> probe_device(const PortOptions& options, const ProbedDevice& device);

// A memif server that was closed keeps its device (Port::close): the next one of its name gets another.
void park_device(std::string_view device);

// What to say about a device that cannot be opened.

// What is wrong with the name of a virtual device, what to install, or which drivers there are. Empty if its
// driver is installed.
[[nodiscard]] std::string why_not_virtual(std::string_view name);

// The network devices on the PCI bus and their kernel drivers, for people.
[[nodiscard]] std::string pci_devices();

// What the kernel says of its network interfaces, and of what this process may do with them.

[[nodiscard]] device::InterfaceFacts facts_of(const std::string& interface);

// What changes while a port is open.
struct InterfaceState {
  unsigned index = 0;  // 0: there is no such interface
  bool up = false;
  bool carrier = false;
};
[[nodiscard]] InterfaceState state_of(const std::string& interface) noexcept;

// Names, in the kernel's order.
[[nodiscard]] std::vector<std::string> interfaces_present();

// "; this process lacks CAP_NET_RAW: ..." with what to do, or nothing when the driver has all rights it
// needs.
[[nodiscard]] std::string missing_rights(device::DeviceKind kind);

// A port of the kernel before DPDK opens it: its arguments completed, its interface looked at.

// Does nothing for other devices. What will cost frames is warned of in DPDK's log.
[[nodiscard]] Result<void> prepare_kernel_port(const PortOptions& options, ProbedDevice& device);

// Its receive queue was set up on the interface of this number.
void note_xdp(const std::string& interface, unsigned index);

}  // namespace tally::dpdk
