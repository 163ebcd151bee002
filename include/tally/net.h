#pragma once
// Ethernet, VLAN, IPv4, IPv6 and UDP headers as they lie on the wire (IEEE 802.3/802.1Q, RFC 791, 8200, 768),
// and the Internet checksum (RFC 1071).

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "tally/be.h"

namespace tally {

using Mac = std::array<std::uint8_t, 6>;
using Ipv4 = std::array<std::uint8_t, 4>;
using Ipv6 = std::array<std::uint8_t, 16>;

inline constexpr Mac kBroadcastMac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
inline constexpr std::uint16_t kEtherIpv4 = 0x0800;
inline constexpr std::uint16_t kEtherIpv6 = 0x86DD;
inline constexpr std::uint16_t kEtherVlan = 0x8100;
inline constexpr std::uint8_t kProtocolUdp = 17;

struct EthernetHeader {
  Mac destination{};
  Mac source{};
  Be<std::uint16_t> type;
};

struct VlanTag {          // behind the type 0x8100
  Be<std::uint16_t> tci;  // priority 3 bits, drop eligible 1, id 12
  Be<std::uint16_t> type;
};

struct Ipv4Header {
  std::uint8_t version_ihl = 0x45;
  std::uint8_t tos = 0;
  Be<std::uint16_t> total_length;
  Be<std::uint16_t> id;
  Be<std::uint16_t> fragment;  // bit 14 don't fragment, bit 13 more fragments, 12..0 offset
  std::uint8_t ttl = 64;
  std::uint8_t protocol = kProtocolUdp;
  Be<std::uint16_t> checksum;
  Ipv4 source{};
  Ipv4 destination{};
};

struct Ipv6Header {
  Be<std::uint32_t> version_class_flow{0x60000000U};
  Be<std::uint16_t> payload_length;
  std::uint8_t next_header = kProtocolUdp;
  std::uint8_t hop_limit = 64;
  Ipv6 source{};
  Ipv6 destination{};
};

struct UdpHeader {
  Be<std::uint16_t> source;
  Be<std::uint16_t> destination;
  Be<std::uint16_t> length;  // header and payload
  Be<std::uint16_t> checksum;
};

static_assert(sizeof(EthernetHeader) == 14 && sizeof(VlanTag) == 4 && sizeof(Ipv4Header) == 20);
static_assert(sizeof(Ipv6Header) == 40 && sizeof(UdpHeader) == 8 && alignof(Ipv6Header) == 1);
static_assert(std::is_trivially_copyable_v<EthernetHeader> && std::is_trivially_copyable_v<UdpHeader>);

inline constexpr std::size_t kMaxEncapsulation =
    sizeof(EthernetHeader) + sizeof(VlanTag) + sizeof(Ipv6Header) + sizeof(UdpHeader);  // 66

constexpr Ipv6 mapped(const Ipv4& a) noexcept {
  return {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a[0], a[1], a[2], a[3]};
}
constexpr bool is_mapped_ipv4(const Ipv6& a) noexcept { return mapped({a[12], a[13], a[14], a[15]}) == a; }

// `sum` as 16 bits.
[[nodiscard]] constexpr std::uint16_t folded(std::uint32_t sum) noexcept {
  while ((sum >> 16) != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

// One's complement sum of the bytes as big-endian 16-bit words, folded to 16 bits; an odd last byte is
// padded. Sums of parts may be added before they are folded, if all parts but the last have an even length.
// In 32-bit words of the machine's order, so that the compiler can vectorise it; the sum's bytes are then in
// the other order (RFC 1071, 2, B).
[[nodiscard]] inline std::uint32_t internet_sum(std::span<const std::byte> bytes) noexcept {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    sum += word;
  }
  std::uint32_t rest = 0;
  if (i < bytes.size()) std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
  sum += rest;
  sum = (sum & 0xFFFF'FFFF) + (sum >> 32);
  const auto half = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
  return __builtin_bswap16(folded(static_cast<std::uint32_t>(half)));
}
// The same of a header.
template <class T>
[[nodiscard]] std::uint32_t internet_sum_of(const T& header) noexcept {
  return internet_sum(std::as_bytes(std::span{&header, 1}));
}

// The checksum that goes with a sum, folded or not.
[[nodiscard]] constexpr Be<std::uint16_t> internet_checksum(std::uint32_t sum) noexcept {
  return Be{static_cast<std::uint16_t>(~folded(sum))};
}

}  // namespace tally
