#include "kernel_device.h"

#include <array>

namespace tally {
namespace {

struct KernelName {
  std::string_view prefix;
  KernelDriver driver;
};

constexpr std::array kNames{
    KernelName{"net_af_packet", KernelDriver::kAfPacket},
    KernelName{"net_af_xdp", KernelDriver::kAfXdp},
    KernelName{"net_tap", KernelDriver::kTap},
    KernelName{"net_pcap", KernelDriver::kPcap},
};

// net_tap, net_tap0; not net_tapestry.
KernelDriver driver_of(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(','));
  for (const KernelName& n : kNames) {
    if (name.starts_with(n.prefix) &&
        name.find_first_not_of("0123456789", n.prefix.size()) == std::string_view::npos)
      return n.driver;
  }
  return KernelDriver::kNone;
}

}  // namespace

std::string required_interface(const DeviceWords& words, std::vector<DeviceComplaint>& complaints) {
  if (!words.has("iface"))
    complaints.push_back({"", "iface is missing", "name the network interface: iface=eth1"});
  return words.interface("iface", complaints);
}

void one_queue_only(std::string_view driver, std::uint32_t queues, std::vector<DeviceComplaint>& complaints) {
  if (queues > 1)
    complaints.push_back({"queues",
                          std::to_string(queues) + " queues, but " + std::string(driver) + " has one here",
                          "write queues: 1; the cores divide the work among themselves"});
}

KernelDevice examine_kernel_device(std::string_view text, std::uint32_t mtu, std::uint32_t queues,
                                   std::uint32_t descriptors, std::uint32_t burst) {
  KernelDevice device{.driver = driver_of(text), .device = std::string(text)};
  if (device.driver == KernelDriver::kNone) return device;
  DeviceWords words(text);
  switch (device.driver) {
    case KernelDriver::kAfPacket:
      examine_af_packet(words, mtu, queues, burst, device);
      break;
    case KernelDriver::kAfXdp:
      examine_af_xdp(words, mtu, queues, descriptors, device);
      break;
    case KernelDriver::kTap:
      examine_tap(words, mtu, queues, descriptors, device);
      break;
    case KernelDriver::kPcap:
      examine_pcap(words, queues, device);
      break;
    case KernelDriver::kNone:
      break;
  }
  device.device = words.text();
  return device;
}

}  // namespace tally
