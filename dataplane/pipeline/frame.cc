#include "frame.h"

#include <bit>
#include <cstring>

#include "tally/ids.h"
#include "tally/wire.h"

namespace tally {
namespace {

// Wire structs have alignment 1 and are trivially copyable, so viewing packet bytes as one is a copy that
// the compiler turns into plain loads.
template <class T>
T peek(const std::byte* at) noexcept {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

Datagram dropped(Drop why) noexcept {
  Datagram d;
  d.verdict = Verdict::kDrop;
  d.drop = why;
  return d;
}

bool is_our_port(std::uint16_t port) noexcept { return port >= kBasePort && port < kBasePort + kMaxShards; }

// `ip_payload` = bytes the IP header announces behind itself; `room` = bytes the frame really has there.
Datagram open_udp(std::byte* at, std::size_t ip_payload, std::size_t room, Datagram&& d) noexcept {
  if (room < sizeof(UdpHeader)) return dropped(Drop::kRunt);
  const auto udp = peek<UdpHeader>(at);
  if (!is_our_port(udp.destination.host())) return Datagram{};
  if (ip_payload > room || udp.length.host() != ip_payload) return dropped(Drop::kLength);
  if (ip_payload < sizeof(UdpHeader) + kHeaderBytes) return dropped(Drop::kRunt);
  d.verdict = Verdict::kPunt;
  d.source.udp_port = udp.source.host();
  d.payload = at + sizeof(UdpHeader);
  d.payload_bytes = static_cast<std::uint32_t>(ip_payload - sizeof(UdpHeader));
  return d;
}

Datagram open_ipv4(std::byte* at, std::size_t room, const Box& box, Datagram&& d) noexcept {
  if (room < sizeof(Ipv4Header)) return dropped(Drop::kRunt);
  const auto ip = peek<Ipv4Header>(at);
  if (ip.destination != box.ipv4 || box.ipv4 == Ipv4{} || ip.protocol != kProtocolUdp) return Datagram{};
  if (ip.version_ihl != 0x45) return dropped(Drop::kIpHeader);
  if ((ip.fragment.host() & 0x3FFF) != 0) return dropped(Drop::kFragment);
  const std::size_t total = ip.total_length.host();
  if (total < sizeof(Ipv4Header)) return dropped(Drop::kLength);
  d.source.address = mapped(ip.source);
  return open_udp(at + sizeof ip, total - sizeof ip, room - sizeof ip, std::move(d));
}

Datagram open_ipv6(std::byte* at, std::size_t room, const Box& box, Datagram&& d) noexcept {
  constexpr std::uint8_t kFragmentHeader = 44;
  if (room < sizeof(Ipv6Header)) return dropped(Drop::kRunt);
  const auto ip = peek<Ipv6Header>(at);
  if (ip.destination != box.ipv6 || box.ipv6 == Ipv6{}) return Datagram{};
  if (ip.next_header == kFragmentHeader) return dropped(Drop::kFragment);
  if (ip.next_header != kProtocolUdp) return Datagram{};
  if ((ip.version_class_flow.host() >> 28) != 6) return dropped(Drop::kIpHeader);
  d.source.address = ip.source;
  return open_udp(at + sizeof ip, ip.payload_length.host(), room - sizeof ip, std::move(d));
}

}  // namespace

// The IP header checksum is not verified: addresses are compared with the member's binding, lengths with each
// other, and nothing else of that header is used.
Datagram open_frame(const Frame& frame, const Box& box) noexcept {
  if (frame.length < sizeof(EthernetHeader)) return dropped(Drop::kRunt);
  const auto ethernet = peek<EthernetHeader>(frame.data);
  if (ethernet.destination != box.mac && ethernet.destination != kBroadcastMac) return Datagram{};

  Datagram d;
  d.source.mac = ethernet.source;
  d.source.port = frame.port;
  std::size_t offset = sizeof ethernet;
  std::uint16_t type = ethernet.type.host();
  if (type == kEtherVlan) {
    if (frame.length < offset + sizeof(VlanTag)) return dropped(Drop::kRunt);
    const auto tag = peek<VlanTag>(frame.data + offset);
    d.source.vlan = tag.tci.host() & 0xFFF;
    type = tag.type.host();
    offset += sizeof tag;
  }
  if (type != kEtherIpv4 && type != kEtherIpv6) return Datagram{};

  std::byte* const ip = frame.data + offset;
  const std::size_t room = frame.length - offset;
  Datagram opened =
      type == kEtherIpv4 ? open_ipv4(ip, room, box, std::move(d)) : open_ipv6(ip, room, box, std::move(d));
  // Only now: a frame in several buffers that is not ours is the L2 switch's business.
  if (opened.verdict != Verdict::kForward && !frame.single_segment) return dropped(Drop::kSegments);
  return opened;
}

}  // namespace tally
