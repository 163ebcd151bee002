#include "loop_packets.h"

#include <algorithm>
#include <cstring>

#include "pipeline/reply.h"
#include "tally/net.h"

namespace tally::e2e {
namespace {

template <class T>
bool take(std::span<const std::byte>& bytes, T& header) {
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  bytes = bytes.subspan(sizeof header);
  return true;
}

// RFC 1071, word by word; a correct header or datagram, its checksum included, gives 0xFFFF.
std::uint32_t ones_sum(std::span<const std::byte> bytes, std::uint32_t sum) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    sum += std::to_integer<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return sum;
}
template <class T>
std::uint32_t ones_sum_of(const T& header, std::uint32_t sum) {
  return ones_sum(std::as_bytes(std::span{&header, 1}), sum);
}

struct Packet {
  Ipv6 to{};
  std::span<const std::byte> udp;  // header and payload
  bool right = false;
};

Packet open_ipv4(std::span<const std::byte> bytes) {
  Packet p;
  Ipv4Header ip;
  if (!take(bytes, ip)) return p;
  p.to = mapped(ip.destination);
  const std::size_t length = ip.total_length.host() - sizeof ip;
  UdpHeader udp;
  auto rest = bytes;
  if (length > bytes.size() || !take(rest, udp)) return p;
  p.udp = bytes.first(length);
  p.right = ip.version_ihl == 0x45 && ip.protocol == kProtocolUdp && ones_sum_of(ip, 0) == 0xFFFF &&
            udp.checksum.host() == 0 && ip.source == loop_box().ipv4;
  return p;
}

Packet open_ipv6(std::span<const std::byte> bytes) {
  Packet p;
  Ipv6Header ip;
  if (!take(bytes, ip)) return p;
  p.to = ip.destination;
  const std::size_t length = ip.payload_length.host();
  if (length > bytes.size()) return p;
  p.udp = bytes.first(length);
  const std::uint32_t pseudo =
      ones_sum_of(ip.destination, ones_sum_of(ip.source, kProtocolUdp + static_cast<std::uint32_t>(length)));
  p.right = ip.version_class_flow.host() >> 28 == 6 && ip.next_header == kProtocolUdp &&
            ones_sum(p.udp, pseudo) == 0xFFFF && ip.source == loop_box().ipv6;
  return p;
}

// Ethernet addresses of groups, by RFC 1112 and RFC 2464.
Mac group_mac(const Ipv6& group) {
  Mac mac{0x33, 0x33, group[12], group[13], group[14], group[15]};
  if (is_mapped_ipv4(group))
    mac = {1, 0, 0x5e, static_cast<std::uint8_t>(group[13] & 127), group[14], group[15]};
  return mac;
}

}  // namespace

jobs::Box loop_box() {
  return {.mac = {2, 0, 0, 0, 0, 0xb0},
          .ipv4 = {10, 0, 0, 1},
          .ipv6 = {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

jobs::Binding loop_binding(std::uint16_t rank, std::uint16_t vlan, bool ipv6) {
  const auto low = static_cast<std::uint8_t>(rank + 1);
  jobs::Binding b;
  b.address = ipv6 ? Ipv6{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, low} : mapped({10, 0, 1, low});
  b.mac = {2, 1, 0, 0, 0, low};
  b.vlan = vlan;
  b.udp_port = static_cast<std::uint16_t>(40000 + rank);
  return b;
}

std::span<const std::byte> unwrap(std::span<const std::byte> frame, const jobs::Binding& self,
                                  const engine::Membership* membership, std::vector<std::string>& wrong) {
  EthernetHeader ethernet;
  if (!take(frame, ethernet)) return {};
  std::uint16_t type = ethernet.type.host();
  std::uint16_t vlan = jobs::kUntagged;
  VlanTag tag;
  if (type == kEtherVlan && take(frame, tag)) {
    vlan = tag.tci.host() & 0xFFF;
    type = tag.type.host();
  }
  const bool group = membership != nullptr && membership->results == ResultsMode::kMulticast &&
                     ethernet.destination == group_mac(membership->group);
  if (vlan != self.vlan || (!group && ethernet.destination != self.mac)) return {};

  const Packet packet = type == kEtherIpv4 ? open_ipv4(frame) : open_ipv6(frame);
  UdpHeader udp;
  auto datagram = packet.udp;
  const bool whole = take(datagram, udp) && udp.length.host() == packet.udp.size();
  const bool addressed = packet.to == (group ? membership->group : self.address) &&
                         udp.destination.host() == (group ? membership->group_port : self.udp_port);
  if (!whole || !packet.right || !addressed || ethernet.source != loop_box().mac) {
    wrong.emplace_back("a kernel would discard a frame for " + std::to_string(self.udp_port));
    return {};
  }
  return datagram;
}

void wrap_for_box(std::span<std::byte> head, const jobs::Binding& self, std::uint16_t destination_port,
                  std::span<const std::byte> datagram) {
  const bool ipv6 = !is_mapped_ipv4(self.address);
  jobs::Box from{.mac = self.mac, .ipv4 = {}, .ipv6 = self.address};
  if (!ipv6) std::copy_n(self.address.begin() + 12, 4, from.ipv4.begin());
  const jobs::Box box = loop_box();
  const jobs::Binding to{.address = ipv6 ? box.ipv6 : mapped(box.ipv4),
                         .mac = box.mac,
                         .vlan = self.vlan,
                         .udp_port = destination_port};
  pipeline::write_encapsulation(head, to, from, self.udp_port, datagram);
}

}  // namespace tally::e2e
