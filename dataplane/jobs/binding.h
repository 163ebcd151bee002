#pragma once
// Where a member's packets come from, as learned from its accepted JOIN (docs/protocol.md, 2). A data
// packet from elsewhere is Drop(source); replies go back there.

#include <array>
#include <cstdint>

#include "tally/ids.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally::jobs {

inline constexpr std::uint16_t kUntagged = 0xFFFF;

struct Binding {
  Ipv6 address{};                  // IPv4 as ::ffff:a.b.c.d
  Mac mac{};                       // of the sender, or of the next hop in a one-arm deployment
  std::uint16_t vlan = kUntagged;  // 12-bit id
  std::uint16_t udp_port = 0;      // host order
  PortIndex port{};                // ingress port

  bool operator==(const Binding&) const noexcept = default;
};

// The box's own addresses on the wire (docs/protocol.md, 2). One MAC on all its ports.

struct Box {
  Mac mac{};
  Ipv4 ipv4{};  // all zero: no IPv4
  Ipv6 ipv6{};  // all zero: no IPv6
};

// Where multicast results of a job go (docs/protocol.md, 2).

// Group of multicast results: 239.192.hi.lo of the job id as ::ffff:239.192.hi.lo, or ff15::hi:lo.
[[nodiscard]] constexpr Ipv6 multicast_group(JobId job, bool ipv6) noexcept {
  const auto hi = static_cast<std::uint8_t>(raw(job) >> 8);
  const auto lo = static_cast<std::uint8_t>(raw(job) & 0xFFU);
  if (!ipv6) return mapped({239, 192, hi, lo});
  return {0xff, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, hi, 0, lo};
}

// Ethernet address of a group: 01:00:5e and the low 23 bits (RFC 1112, 6.4), or 33:33 and the low 32 bits
// (RFC 2464, 7).
[[nodiscard]] constexpr Mac multicast_mac(const Ipv6& group) noexcept {
  if (is_mapped_ipv4(group))
    return {0x01, 0x00, 0x5e, static_cast<std::uint8_t>(group[13] & 0x7FU), group[14], group[15]};
  return {0x33, 0x33, group[12], group[13], group[14], group[15]};
}

// The receivers that share the leader's port, VLAN and IP version.
[[nodiscard]] constexpr Binding multicast_binding(JobId job, const Binding& leader) noexcept {
  const Ipv6 group = multicast_group(job, !is_mapped_ipv4(leader.address));
  return {.address = group,
          .mac = multicast_mac(group),
          .vlan = leader.vlan,
          .udp_port = kMulticastPort,
          .port = leader.port};
}

}  // namespace tally::jobs
