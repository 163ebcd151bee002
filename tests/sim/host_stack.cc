#include "host_stack.h"

#include <algorithm>
#include <cstring>

#include "tally/net.h"

namespace tally::sim {
namespace {

Ipv4Header ip_of(const Bytes& frame) {
  Ipv4Header ip;
  std::memcpy(&ip, frame.data() + sizeof(EthernetHeader), sizeof ip);
  return ip;
}

}  // namespace

std::span<const std::byte> unwrap(const Bytes& frame, const jobs::Binding& self) {
  constexpr std::size_t kOuter = sizeof(EthernetHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader);
  if (frame.size() < kOuter) return {};
  EthernetHeader ethernet;
  Ipv4Header ip;
  UdpHeader udp;
  std::memcpy(&ethernet, frame.data(), sizeof ethernet);
  std::memcpy(&ip, frame.data() + sizeof ethernet, sizeof ip);
  std::memcpy(&udp, frame.data() + sizeof ethernet + sizeof ip, sizeof udp);
  const bool mine = ethernet.destination == self.mac && ethernet.type.host() == kEtherIpv4 &&
                    ip.version_ihl == 0x45 && mapped(ip.destination) == self.address &&
                    udp.destination.host() == self.udp_port;
  const std::size_t length = udp.length.host();
  if (!mine || length < sizeof udp || length > frame.size() - kOuter + sizeof udp) return {};
  return std::span{frame}.subspan(kOuter, length - sizeof udp);
}

Ipv6 source_of(const Bytes& frame) { return mapped(ip_of(frame).source); }
Ipv6 destination_of(const Bytes& frame) { return mapped(ip_of(frame).destination); }

const jobs::Box* box_at(std::span<const jobs::Box> boxes, const Ipv6& address) {
  const auto box = std::find_if(boxes.begin(), boxes.end(),
                                [&](const jobs::Box& one) { return mapped(one.ipv4) == address; });
  return box == boxes.end() ? nullptr : &*box;
}

}  // namespace tally::sim
