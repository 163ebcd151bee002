#include "device/interface_advice.h"

namespace tally::device {

std::string listed(const std::vector<std::string>& names) {
  std::string words;
  for (const std::string& name : names) words += (words.empty() ? "" : ", ") + name;
  return words.empty() ? "none" : words;
}

namespace {

// The kernel's stack sees what arrives as well; af_xdp takes it away.
bool shares_with_host(DeviceKind driver) {
  return driver == DeviceKind::kAfPacket || driver == DeviceKind::kPcap;
}

}  // namespace

InterfaceAdvice advise(const KernelDevice& device, std::uint32_t mtu, const InterfaceFacts& facts,
                       const std::vector<std::string>& present) {
  InterfaceAdvice advice;
  const std::string& name = device.interface;
  if (name.empty()) return advice;
  if (!facts.exists) {
    advice.error = "there is no network interface " + name + "; there are: " + listed(present);
    return advice;
  }
  if (facts.loopback) {
    advice.error = "interface " + name +
                   " is a loopback interface, which no other host can reach: name another; "
                   "workers on this host take net_memif, or a veth pair";
    return advice;
  }
  const std::string set_mtu = "ip link set " + name + " mtu " + std::to_string(mtu);
  if (facts.mtu != 0 && facts.mtu < mtu) {
    advice.error = "interface " + name + " has mtu " + std::to_string(facts.mtu) +
                   " and would drop frames of the port's, " + std::to_string(mtu) + ": " + set_mtu +
                   ", or lower mtu of the port";
    return advice;
  }
  const auto warn = [&](std::string what) {
    advice.warnings.push_back("interface " + name + " " + std::move(what));
  };
  if (!facts.up) warn("is down: ip link set " + name + " up");
  if (facts.mtu > mtu)
    warn("has mtu " + std::to_string(facts.mtu) + ", the port " + std::to_string(mtu) +
         ": longer frames are cut or lost; " + set_mtu);
  if (facts.merges && shares_with_host(device.kind))
    warn("merges what it receives into frames larger than its mtu, which are cut: ethtool -K " + name +
         " gro off lro off");
  if (facts.has_ipv4 && shares_with_host(device.kind))
    warn("has an IPv4 address, so that the kernel answers what arrives too: ip address flush dev " + name);
  if (device.kind == DeviceKind::kAfXdp && facts.queues > 1)
    warn("has " + std::to_string(facts.queues) +
         " queues, of which one is read; the kernel keeps what arrives in the others: ethtool -L " + name +
         (facts.combined ? " combined 1" : " rx 1"));
  return advice;
}

}  // namespace tally::device
