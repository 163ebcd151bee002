#pragma once
// Where a member's packets come from, as learned from its accepted JOIN (protocol.md, Addresses). A data
// packet from elsewhere is Drop(source); replies go back there.

#include <compare>
#include <cstdint>

#include "tally/ids.h"
#include "tally/net.h"

namespace tally {

inline constexpr std::uint16_t kUntagged = 0xFFFF;

struct Binding {
  Ipv6 address{};                  // IPv4 as ::ffff:a.b.c.d
  Mac mac{};                       // of the sender, or of the next hop in a one-arm deployment
  std::uint16_t vlan = kUntagged;  // 12-bit id
  std::uint16_t udp_port = 0;      // host order
  PortIndex port{};                // ingress port
  std::uint32_t padding = 0;       // keeps the comparison free of holes: 32 bytes, no padding bits

  constexpr bool operator==(const Binding&) const noexcept = default;
};
static_assert(sizeof(Binding) == 32);

}  // namespace tally
