#include "pipeline/frame.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "tally/ids.h"
#include "tally/switchml.h"
#include "tally/wire.h"

namespace tally::pipeline {
namespace {

constexpr std::uint64_t kMappedPrefix =
    0xFFFF'0000;  // bytes 8..11 of ::ffff:a.b.c.d, as a little-endian word
static_assert(sizeof(jobs::Binding) == 32 && offsetof(jobs::Binding, mac) == 16 &&
              offsetof(jobs::Binding, vlan) == 22);
static_assert(offsetof(jobs::Binding, udp_port) == 24 && offsetof(jobs::Binding, port) == 26);

void drop(OpenedFrame& d, Drop why) noexcept {
  d.kind = Kind::kBad;
  d.drop = why;
}

// Of an address in the frame with one of ours: in registers, for every packet.
bool same(const std::byte* at, const Mac& mac) noexcept {
  const auto* const ours = reinterpret_cast<const std::byte*>(mac.data());
  return wire_at<std::uint32_t>(at) == wire_at<std::uint32_t>(ours) &&
         wire_at<std::uint16_t>(at + 4) == wire_at<std::uint16_t>(ours + 4);
}

// The binding's 32 bytes as four words, put together in registers: stores of single fields would make the
// comparison with the member's binding wait for all of them (no store forwarding from narrow to wide). Hence
// the functions that fill them are inlined by order, and they are stored one by one: a copy of 16 bytes at a
// time would wait for two stores of 8.
struct SourceWords {
  std::uint64_t address_high = 0;
  std::uint64_t address_low = 0;
  std::uint64_t mac_vlan = 0;
  std::uint64_t ports = 0;

  void store(jobs::Binding& to) const noexcept {
    auto* const at = reinterpret_cast<std::byte*>(&to);
    std::memcpy(at, &address_high, sizeof address_high);
    std::memcpy(at + 8, &address_low, sizeof address_low);
    std::memcpy(at + 16, &mac_vlan, sizeof mac_vlan);
    std::memcpy(at + 24, &ports, sizeof ports);
  }
};

bool is_our_port(std::uint16_t port) noexcept { return port >= kBasePort && port < kBasePort + kMaxShards; }

// The dialect switchml is untagged IPv4 to the box's own MAC; anything else on its ports is no packet of
// ours. Out of the way of those that are. Checksums are not judged, for its clients send wrong ones.
[[gnu::noinline]] void open_switchml(std::byte* at, std::size_t ip_payload, std::size_t room,
                                     const Frame& frame, const jobs::Box& box, OpenedFrame& d) noexcept {
  constexpr std::ptrdiff_t kUntaggedIpv4 = sizeof(EthernetHeader) + sizeof(Ipv4Header);
  const auto udp = wire_at<UdpHeader>(at);
  if (!switchml::is_port(udp.destination.host())) return;
  if (at - frame.data != kUntaggedIpv4 || !same(frame.data, box.mac)) return;
  if (ip_payload > room || udp.length.host() != ip_payload) return drop(d, Drop::kLength);
  if (ip_payload < sizeof(UdpHeader) + switchml::kHeaderBytes) return drop(d, Drop::kRunt);
  d.kind = Kind::kSession;
  d.payload = at + sizeof(UdpHeader);
  d.payload_bytes = static_cast<std::uint32_t>(ip_payload - sizeof(UdpHeader));
}

// `ip_payload` = bytes the IP header announces behind itself; `room` = bytes the frame really has there.
[[gnu::always_inline]] inline void open_udp(std::byte* at, std::size_t ip_payload, std::size_t room,
                                            const Frame& frame, const jobs::Box& box, SourceWords& source,
                                            OpenedFrame& d) noexcept {
  if (room < sizeof(UdpHeader)) return drop(d, Drop::kRunt);
  const auto udp = wire_at<UdpHeader>(at);
  if (!is_our_port(udp.destination.host())) return open_switchml(at, ip_payload, room, frame, box, d);
  if (ip_payload > room || udp.length.host() != ip_payload) return drop(d, Drop::kLength);
  if (ip_payload < sizeof(UdpHeader) + kHeaderBytes) return drop(d, Drop::kRunt);
  d.kind = Kind::kNative;
  source.ports |= udp.source.host();
  d.payload = at + sizeof(UdpHeader);
  d.payload_bytes = static_cast<std::uint32_t>(ip_payload - sizeof(UdpHeader));
}

[[gnu::always_inline]] inline void open_ipv4(std::byte* at, std::size_t room, const Frame& frame,
                                             const jobs::Box& box, SourceWords& source,
                                             OpenedFrame& d) noexcept {
  if (room < sizeof(Ipv4Header)) return drop(d, Drop::kRunt);
  const auto ip = wire_at<Ipv4Header>(at);
  const auto ours = std::bit_cast<std::uint32_t>(box.ipv4);
  if (std::bit_cast<std::uint32_t>(ip.destination) != ours || ours == 0 || ip.protocol != kProtocolUdp)
    return;
  if (ip.version_ihl != 0x45) return drop(d, Drop::kIpHeader);
  if ((ip.fragment.host() & 0x3FFF) != 0) return drop(d, Drop::kFragment);
  const std::size_t total = ip.total_length.host();
  if (total < sizeof(Ipv4Header)) return drop(d, Drop::kLength);
  source.address_low = kMappedPrefix | std::uint64_t{std::bit_cast<std::uint32_t>(ip.source)} << 32;
  open_udp(at + sizeof ip, total - sizeof ip, room - sizeof ip, frame, box, source, d);
}

[[gnu::always_inline]] inline void open_ipv6(std::byte* at, std::size_t room, const Frame& frame,
                                             const jobs::Box& box, SourceWords& source,
                                             OpenedFrame& d) noexcept {
  constexpr std::uint8_t kFragmentHeader = 44;
  if (room < sizeof(Ipv6Header)) return drop(d, Drop::kRunt);
  const auto ip = wire_at<Ipv6Header>(at);
  if (ip.destination != box.ipv6 || box.ipv6 == Ipv6{}) return;
  if (ip.next_header == kFragmentHeader) return drop(d, Drop::kFragment);
  if (ip.next_header != kProtocolUdp) return;
  // ::ffff:a.b.c.d stands for an IPv4 member in bindings and never comes over IPv6 (RFC 4038, 4.2).
  if ((ip.version_class_flow.host() >> 28) != 6 || is_mapped_ipv4(ip.source)) return drop(d, Drop::kIpHeader);
  source.address_high = wire_at<std::uint64_t>(at + offsetof(Ipv6Header, source));
  source.address_low = wire_at<std::uint64_t>(at + offsetof(Ipv6Header, source) + 8);
  open_udp(at + sizeof ip, ip.payload_length.host(), room - sizeof ip, frame, box, source, d);
}

}  // namespace

// The IP header checksum is not verified: addresses are compared with the member's binding, lengths with each
// other, and nothing else of that header is used.
OpenedFrame open_frame(const Frame& frame, const jobs::Box& box) noexcept {
  OpenedFrame d;
  if (frame.length < sizeof(EthernetHeader)) {
    drop(d, Drop::kRunt);
    return d;
  }
  if (!same(frame.data, box.mac) && !same(frame.data, kBroadcastMac)) return d;

  SourceWords source;
  source.mac_vlan =
      wire_at<std::uint32_t>(frame.data + 6) | std::uint64_t{wire_at<std::uint16_t>(frame.data + 10)} << 32;
  source.ports = std::uint64_t{raw(frame.port)} << 16;
  std::uint64_t vlan = jobs::kUntagged;
  std::size_t offset = sizeof(EthernetHeader);
  std::uint16_t type = wire_at<Be<std::uint16_t>>(frame.data + offsetof(EthernetHeader, type)).host();
  if (type == kEtherVlan) {
    if (frame.length < offset + sizeof(VlanTag)) {
      drop(d, Drop::kRunt);
      return d;
    }
    const auto tag = wire_at<VlanTag>(frame.data + offset);
    vlan = tag.tci.host() & 0xFFF;
    type = tag.type.host();
    offset += sizeof tag;
  }
  source.mac_vlan |= vlan << 48;
  if (type == kEtherIpv4) {
    open_ipv4(frame.data + offset, frame.length - offset, frame, box, source, d);
  } else if (type == kEtherIpv6) {
    open_ipv6(frame.data + offset, frame.length - offset, frame, box, source, d);
  }
  source.store(d.source);
  // Only now: a frame in several buffers that is not ours is the L2 switch's business.
  if (d.kind != Kind::kForeign && !frame.single_segment) drop(d, Drop::kSegments);
  return d;
}

namespace {

// Flags a packet of this type may carry; nothing for types the box never takes from outside.
std::optional<std::uint8_t> flags_of(PacketType type) noexcept {
  switch (type) {
    case PacketType::kContribute:
      return kFlagRetransmit | kFlagDirect | kFlagOverflow;
    case PacketType::kQuery:
      return kFlagRetransmit;
    case PacketType::kAnswer:
      return kFlagRetransmit | kFlagOverflow | kFlagIncomplete;  // the last: of some jobs only
    case PacketType::kResult:
      return kFlagRetransmit | kFlagOverflow;
    case PacketType::kFlush:
    case PacketType::kResend:
    case PacketType::kJoin:
    case PacketType::kLeave:
    case PacketType::kHeartbeat:
    case PacketType::kAbort:
    case PacketType::kProbe:
      return std::uint8_t{0};
    case PacketType::kPartial:
    case PacketType::kReject:
    case PacketType::kJoined:
    case PacketType::kNack:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Drop> refuse_header(const Header& h, const std::byte* datagram, std::uint32_t bytes,
                                  const kernels::Kernels& kernels) noexcept {
  // Who JOINs in another version is told so by control.
  if (h.version != kWireVersion && h.type != PacketType::kJoin) return Drop::kVersion;
  if (kernels.crc32c(datagram, kCheckedBytes) != h.check.host()) return Drop::kCheck;
  const auto allowed = flags_of(h.type);
  if (!allowed) return Drop::kType;
  if ((h.flags & ~*allowed) != 0) return Drop::kFlags;
  if (is_control(h.type)) return std::nullopt;  // its payload is the control thread's to judge
  const std::uint32_t elements = h.elements.host();
  if (!valid_elements(elements) || (h.type == PacketType::kQuery && elements != 0)) return Drop::kElements;
  if (bytes != kHeaderBytes + 4 * elements) return Drop::kLength;
  if (!is_dtype(h.dtype)) return Drop::kDtype;
  return std::nullopt;
}

}  // namespace tally::pipeline
