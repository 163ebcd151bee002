#include "pipeline/frame.h"

#include <cstddef>
#include <cstring>

#include "tally/ids.h"
#include "tally/rows.h"
#include "tally/switchml.h"
#include "tally/wire.h"
#include "tally/zero_run.h"

namespace tally::pipeline {
namespace {

void drop(OpenedFrame& d, Drop why) noexcept {
  d.kind = Kind::kBad;
  d.drop = why;
}

bool is_our_port(std::uint16_t port) noexcept { return port >= kBasePort && port < kBasePort + kMaxShards; }

// The dialect switchml is untagged IPv4 to the box's own MAC; anything else on its ports is no packet of
// ours. Checksums are not judged, for its clients send wrong ones.
void open_switchml(std::byte* at, std::size_t ip_payload, std::size_t room, const Frame& frame,
                   const jobs::Box& box, OpenedFrame& d) noexcept {
  constexpr std::ptrdiff_t kUntaggedIpv4 = sizeof(EthernetHeader) + sizeof(Ipv4Header);
  const auto udp = wire_at<UdpHeader>(at);
  if (!switchml::is_port(udp.destination.host())) return;
  if (at - frame.data != kUntaggedIpv4 || wire_at<Mac>(frame.data) != box.mac) return;
  if (ip_payload > room || udp.length.host() != ip_payload) return drop(d, Drop::kLength);
  if (ip_payload < sizeof(UdpHeader) + switchml::kHeaderBytes) return drop(d, Drop::kRunt);
  d.kind = Kind::kSession;
  d.payload = at + sizeof(UdpHeader);
  d.payload_bytes = static_cast<std::uint32_t>(ip_payload - sizeof(UdpHeader));
}

// `ip_payload` = bytes the IP header announces behind itself; `room` = bytes the frame really has there.
void open_udp(std::byte* at, std::size_t ip_payload, std::size_t room, const Frame& frame,
              const jobs::Box& box, OpenedFrame& d) noexcept {
  if (room < sizeof(UdpHeader)) return drop(d, Drop::kRunt);
  const auto udp = wire_at<UdpHeader>(at);
  if (!is_our_port(udp.destination.host())) return open_switchml(at, ip_payload, room, frame, box, d);
  if (ip_payload > room || udp.length.host() != ip_payload) return drop(d, Drop::kLength);
  if (ip_payload < sizeof(UdpHeader) + kHeaderBytes) return drop(d, Drop::kRunt);
  d.kind = Kind::kNative;
  d.source.udp_port = udp.source.host();
  d.payload = at + sizeof(UdpHeader);
  d.payload_bytes = static_cast<std::uint32_t>(ip_payload - sizeof(UdpHeader));
}

void open_ipv4(std::byte* at, std::size_t room, const Frame& frame, const jobs::Box& box,
               OpenedFrame& d) noexcept {
  if (room < sizeof(Ipv4Header)) return drop(d, Drop::kRunt);
  const auto ip = wire_at<Ipv4Header>(at);
  if (ip.destination != box.ipv4 || box.ipv4 == Ipv4{} || ip.protocol != kProtocolUdp) return;
  if (ip.version_ihl != 0x45) return drop(d, Drop::kIpHeader);
  if ((ip.fragment.host() & 0x3FFF) != 0) return drop(d, Drop::kFragment);
  const std::size_t total = ip.total_length.host();
  if (total < sizeof(Ipv4Header)) return drop(d, Drop::kLength);
  d.source.address = mapped(ip.source);
  open_udp(at + sizeof ip, total - sizeof ip, room - sizeof ip, frame, box, d);
}

void open_ipv6(std::byte* at, std::size_t room, const Frame& frame, const jobs::Box& box,
               OpenedFrame& d) noexcept {
  constexpr std::uint8_t kFragmentHeader = 44;
  if (room < sizeof(Ipv6Header)) return drop(d, Drop::kRunt);
  const auto ip = wire_at<Ipv6Header>(at);
  if (ip.destination != box.ipv6 || box.ipv6 == Ipv6{}) return;
  if (ip.next_header == kFragmentHeader) return drop(d, Drop::kFragment);
  if (ip.next_header != kProtocolUdp) return;
  // ::ffff:a.b.c.d stands for an IPv4 member in bindings and never comes over IPv6 (RFC 4038, 4.2).
  if ((ip.version_class_flow.host() >> 28) != 6 || is_mapped_ipv4(ip.source)) return drop(d, Drop::kIpHeader);
  d.source.address = ip.source;
  open_udp(at + sizeof ip, ip.payload_length.host(), room - sizeof ip, frame, box, d);
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
  const auto ethernet = wire_at<EthernetHeader>(frame.data);
  if (ethernet.destination != box.mac && ethernet.destination != kBroadcastMac) return d;
  d.source.mac = ethernet.source;
  d.source.port = frame.port;
  std::size_t offset = sizeof ethernet;
  std::uint16_t type = ethernet.type.host();
  if (type == kEtherVlan) {
    if (frame.length < offset + sizeof(VlanTag)) {
      drop(d, Drop::kRunt);
      return d;
    }
    const auto tag = wire_at<VlanTag>(frame.data + offset);
    d.source.vlan = tag.tci.host() & 0xFFF;
    type = tag.type.host();
    offset += sizeof tag;
  }
  if (type == kEtherIpv4) {
    open_ipv4(frame.data + offset, frame.length - offset, frame, box, d);
  } else if (type == kEtherIpv6) {
    open_ipv6(frame.data + offset, frame.length - offset, frame, box, d);
  }
  // Only now: a frame in several buffers that is not ours is the L2 switch's business.
  if (d.kind != Kind::kForeign && !frame.single_segment) drop(d, Drop::kSegments);
  return d;
}

namespace {

// Flags a packet of this type may carry; nothing for types the box never takes from outside.
std::optional<std::uint8_t> flags_of(PacketType type) noexcept {
  switch (type) {
    case PacketType::kContribute:
      return kFlagRetransmit | kFlagDirect | kFlagOverflow | kFlagZero |
             kFlagSparse;  // the last: of some jobs only
    case PacketType::kQuery:
      return kFlagRetransmit | kFlagDirect;
    case PacketType::kAnswer:
      return kFlagRetransmit | kFlagOverflow | kFlagZero | kFlagIncomplete |
             kFlagSparse;  // the last two: likewise
    case PacketType::kResult:
      return kFlagRetransmit | kFlagOverflow | kFlagZero;
    case PacketType::kFlush:
    case PacketType::kResend:
    case PacketType::kJoin:
    case PacketType::kLeave:
    case PacketType::kHeartbeat:
    case PacketType::kAbort:
    case PacketType::kProbe:
    case PacketType::kPlan:
    case PacketType::kLost:
    case PacketType::kEnlist:
    case PacketType::kZeroRun:
      return std::uint8_t{0};
    case PacketType::kPartial:
    case PacketType::kReject:
    case PacketType::kJoined:
    case PacketType::kNack:
    case PacketType::kChallenge:
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
  constexpr std::uint8_t kBoth = kFlagZero | kFlagSparse;
  if ((h.flags & ~*allowed) != 0 || (h.flags & kBoth) == kBoth) return Drop::kFlags;
  if (is_control(h.type)) return std::nullopt;  // its payload is the control thread's to judge
  const std::uint32_t elements = h.elements.host();
  if (!valid_elements(elements, h.dtype) || (h.type == PacketType::kQuery && elements != 0))
    return Drop::kElements;
  const std::byte* const payload = datagram + kHeaderBytes;
  const std::uint32_t values = bytes - static_cast<std::uint32_t>(kHeaderBytes);
  if ((h.flags & kFlagSparse) != 0) {
    if (!are_rows(payload, rows_of(elements, h.dtype), values)) return Drop::kRows;
  } else if (h.type == PacketType::kZeroRun ? !are_run_exponents(h, payload, values)
                                            : values != values_bytes(h)) {
    return Drop::kLength;
  }
  if (!is_dtype(h.dtype)) return Drop::kDtype;
  return std::nullopt;
}

}  // namespace tally::pipeline
