#pragma once
// Where a member's packets come from, as learned from its accepted JOIN (protocol.md, Addresses). A data
// packet from elsewhere is Drop(source); replies go back there.

#include <array>
#include <bit>
#include <cstdint>
#include <type_traits>

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

  // Four words instead of a memcmp per array: compared once per packet.
  constexpr bool operator==(const Binding& other) const noexcept {
    using Words = std::array<std::uint64_t, 4>;
    const auto a = std::bit_cast<Words>(*this);
    const auto b = std::bit_cast<Words>(other);
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
  }
};
static_assert(sizeof(Binding) == 32 && std::has_unique_object_representations_v<Binding>);

}  // namespace tally
