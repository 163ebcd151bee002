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

void drop(OpenedFrame& d, Drop why) noexcept {
  d.verdict = Verdict::kDrop;
  d.drop = why;
}

// Compared for every packet: a word or two instead of a call of memcmp.
std::uint64_t word_of(const Mac& mac) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, mac.data(), mac.size());
  return word;
}
bool same(const Mac& a, const Mac& b) noexcept { return word_of(a) == word_of(b); }
bool same(const Ipv4& a, const Ipv4& b) noexcept {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

bool is_our_port(std::uint16_t port) noexcept { return port >= kBasePort && port < kBasePort + kMaxShards; }

// `ip_payload` = bytes the IP header announces behind itself; `room` = bytes the frame really has there.
void open_udp(std::byte* at, std::size_t ip_payload, std::size_t room, OpenedFrame& d) noexcept {
  if (room < sizeof(UdpHeader)) return drop(d, Drop::kRunt);
  const auto udp = peek<UdpHeader>(at);
  if (!is_our_port(udp.destination.host())) return;
  if (ip_payload > room || udp.length.host() != ip_payload) return drop(d, Drop::kLength);
  if (ip_payload < sizeof(UdpHeader) + kHeaderBytes) return drop(d, Drop::kRunt);
  d.verdict = Verdict::kPunt;
  d.source.udp_port = udp.source.host();
  d.payload = at + sizeof(UdpHeader);
  d.payload_bytes = static_cast<std::uint32_t>(ip_payload - sizeof(UdpHeader));
}

void open_ipv4(std::byte* at, std::size_t room, const Box& box, OpenedFrame& d) noexcept {
  if (room < sizeof(Ipv4Header)) return drop(d, Drop::kRunt);
  const auto ip = peek<Ipv4Header>(at);
  if (!same(ip.destination, box.ipv4) || same(box.ipv4, Ipv4{}) || ip.protocol != kProtocolUdp) return;
  if (ip.version_ihl != 0x45) return drop(d, Drop::kIpHeader);
  if ((ip.fragment.host() & 0x3FFF) != 0) return drop(d, Drop::kFragment);
  const std::size_t total = ip.total_length.host();
  if (total < sizeof(Ipv4Header)) return drop(d, Drop::kLength);
  d.source.address = mapped(ip.source);
  open_udp(at + sizeof ip, total - sizeof ip, room - sizeof ip, d);
}

void open_ipv6(std::byte* at, std::size_t room, const Box& box, OpenedFrame& d) noexcept {
  constexpr std::uint8_t kFragmentHeader = 44;
  if (room < sizeof(Ipv6Header)) return drop(d, Drop::kRunt);
  const auto ip = peek<Ipv6Header>(at);
  if (ip.destination != box.ipv6 || box.ipv6 == Ipv6{}) return;
  if (ip.next_header == kFragmentHeader) return drop(d, Drop::kFragment);
  if (ip.next_header != kProtocolUdp) return;
  // ::ffff:a.b.c.d stands for an IPv4 member in bindings and never comes over IPv6 (RFC 4038, 4.2).
  if ((ip.version_class_flow.host() >> 28) != 6 || is_mapped_ipv4(ip.source)) return drop(d, Drop::kIpHeader);
  d.source.address = ip.source;
  open_udp(at + sizeof ip, ip.payload_length.host(), room - sizeof ip, d);
}

}  // namespace

// The IP header checksum is not verified: addresses are compared with the member's binding, lengths with each
// other, and nothing else of that header is used.
OpenedFrame open_frame(const Frame& frame, const Box& box) noexcept {
  OpenedFrame d;
  if (frame.length < sizeof(EthernetHeader)) {
    drop(d, Drop::kRunt);
    return d;
  }
  const auto ethernet = peek<EthernetHeader>(frame.data);
  if (!same(ethernet.destination, box.mac) && !same(ethernet.destination, kBroadcastMac)) return d;

  d.source.mac = ethernet.source;
  d.source.port = frame.port;
  std::size_t offset = sizeof ethernet;
  std::uint16_t type = ethernet.type.host();
  if (type == kEtherVlan) {
    if (frame.length < offset + sizeof(VlanTag)) {
      drop(d, Drop::kRunt);
      return d;
    }
    const auto tag = peek<VlanTag>(frame.data + offset);
    d.source.vlan = tag.tci.host() & 0xFFF;
    type = tag.type.host();
    offset += sizeof tag;
  }
  if (type == kEtherIpv4) {
    open_ipv4(frame.data + offset, frame.length - offset, box, d);
  } else if (type == kEtherIpv6) {
    open_ipv6(frame.data + offset, frame.length - offset, box, d);
  }
  // Only now: a frame in several buffers that is not ours is the L2 switch's business.
  if (d.verdict != Verdict::kForward && !frame.single_segment) drop(d, Drop::kSegments);
  return d;
}

}  // namespace tally
