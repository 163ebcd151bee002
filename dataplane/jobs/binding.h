#pragma once
// Where a member's packets come from, as learned from its accepted JOIN (docs/protocol.md, 2). A data
// packet from elsewhere is Drop(source); replies go back there.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

  // Compared once per packet, right after open_frame() has stored four words: four loads of a word each.
  // Wider ones, which compilers make of a copy of the whole, would wait for those stores (no store forwarding
  // from two to one): 5 ns.
  constexpr bool operator==(const Binding& other) const noexcept {
    if (std::is_constant_evaluated()) return std::bit_cast<Words>(*this) == std::bit_cast<Words>(other);
    return ((word(0) ^ other.word(0)) | (word(1) ^ other.word(1)) | (word(2) ^ other.word(2)) |
            (word(3) ^ other.word(3))) == 0;
  }

 private:
  using Words = std::array<std::uint64_t, 4>;
  [[nodiscard]] std::uint64_t word(std::size_t i) const noexcept {
    std::uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const std::byte*>(this) + 8 * i, sizeof value);
    return value;
  }
};
static_assert(sizeof(Binding) == 32 && std::has_unique_object_representations_v<Binding>);

}  // namespace tally
