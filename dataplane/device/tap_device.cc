// net_tap: makes a network interface of the kernel, whose wire is this port.

#include "kernel_device.h"

namespace tally {
namespace {

constexpr std::uint32_t kTapMtu = 1500;  // the driver sends nothing longer, whatever mtu the interface has

}  // namespace

void examine_tap(const DeviceWords& words, std::uint32_t mtu, std::uint32_t queues, std::uint32_t descriptors,
                 KernelDevice& device) {
  auto& wrong = device.complaints;
  static_cast<void>(words.interface("iface", wrong));
  device.interface = words.interface("remote", wrong);
  // With more, the kernel spreads frames over the transmit queues too, and nobody reads those.
  one_queue_only("net_tap", queues, wrong);
  if (mtu > kTapMtu)
    wrong.push_back({"mtu", "net_tap carries an mtu of at most 1500, not " + std::to_string(mtu),
                     "lower mtu, or make a veth pair and write net_af_packet"});
  device.receive_mbufs = descriptors;
}

}  // namespace tally
