#pragma once
// ARP, ICMP and neighbour discovery as they lie on the wire (RFC 826, 792, 4443, 4861). The others:
// tally/net.h.

#include <cstdint>
#include <type_traits>

#include "tally/net.h"

namespace tally::l2 {

inline constexpr std::uint16_t kEtherArp = 0x0806;
inline constexpr std::uint8_t kProtocolIcmp = 1;
inline constexpr std::uint8_t kProtocolIcmp6 = 58;

struct ArpPacket {
  Be<std::uint16_t> hardware;  // 1: Ethernet
  Be<std::uint16_t> protocol;  // kEtherIpv4
  std::uint8_t hardware_bytes = 6;
  std::uint8_t protocol_bytes = 4;
  Be<std::uint16_t> operation;  // 1 request, 2 reply
  Mac sender_mac{};
  Ipv4 sender{};
  Mac target_mac{};
  Ipv4 target{};
};

struct IcmpHeader {  // of either IP version; what follows depends on the type
  std::uint8_t type = 0;
  std::uint8_t code = 0;
  Be<std::uint16_t> checksum;
  Be<std::uint32_t> rest;  // echo: id and sequence number; advertisement: its flags
};
inline constexpr std::uint8_t kIcmpEcho = 8, kIcmpEchoReply = 0;
inline constexpr std::uint8_t kIcmp6Echo = 128, kIcmp6EchoReply = 129;

struct NeighbourMessage {  // solicitation (type 135) and advertisement (136); options follow
  IcmpHeader icmp;
  Ipv6 target{};
};
inline constexpr std::uint8_t kSolicitation = 135, kAdvertisement = 136;
inline constexpr std::uint32_t kSolicited = 0x4000'0000, kOverride = 0x2000'0000;

struct LinkAddressOption {
  std::uint8_t type = 0;   // 1 of the source, 2 of the target
  std::uint8_t words = 1;  // of 8 bytes, with these two
  Mac mac{};
};

inline constexpr Ipv6 kAllNodes{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};

constexpr Ipv6 solicited_node(const Ipv6& a) noexcept {
  return {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a[13], a[14], a[15]};
}
// The Ethernet group of an IPv6 group (RFC 2464, 7).
constexpr Mac group_mac(const Ipv6& a) noexcept { return {0x33, 0x33, a[12], a[13], a[14], a[15]}; }

static_assert(sizeof(ArpPacket) == 28 && sizeof(IcmpHeader) == 8 && sizeof(NeighbourMessage) == 24);
static_assert(sizeof(LinkAddressOption) == 8 && std::is_trivially_copyable_v<NeighbourMessage>);

}  // namespace tally::l2
