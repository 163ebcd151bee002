#pragma once
// What a path carries. An MTU is bytes of an IP packet; no packet of ours is cut (docs/protocol.md, 2).

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tally/net.h"
#include "tally/wire.h"

namespace tally {

// Of a worker's path, and so of a box's port: an ABORT with its longest text, over IPv6.
inline constexpr std::uint16_t kLeastMtu = 616;
inline constexpr std::uint16_t kGreatestMtu = 9198;  // 9216 bytes of buffer less Ethernet header and VLAN tag

// IP and UDP headers, in front of our own.
constexpr std::uint16_t ip_udp_bytes(bool ipv4) noexcept {
  return (ipv4 ? sizeof(Ipv4Header) : sizeof(Ipv6Header)) + sizeof(UdpHeader);
}
static_assert(kLeastMtu == ip_udp_bytes(false) + kHeaderBytes + kMaxTextBytes);

// Most elements of a data packet: a multiple of 16, 0..2224; 0 if none fit.
constexpr std::uint16_t elements_that_fit(std::uint32_t mtu, bool ipv4) noexcept {
  const std::size_t headers = ip_udp_bytes(ipv4) + kHeaderBytes;
  const std::size_t values = mtu < headers ? 0 : (mtu - headers) / sizeof(std::int32_t);
  return static_cast<std::uint16_t>(std::min<std::size_t>(values - values % kElementGranule, kMaxElements));
}

}  // namespace tally
