#pragma once
// Addresses as a configuration writes them: of a host with the length of its network, of Ethernet.

#include <cstdint>
#include <string>

#include "config/diagnostic.h"
#include "tally/net.h"

namespace tally::config {

struct Cidr4 {
  Ipv4 address{};
  std::uint8_t prefix = 0;  // 1..32
  constexpr bool operator==(const Cidr4&) const noexcept = default;
};

struct Cidr6 {
  Ipv6 address{};
  std::uint8_t prefix = 0;  // 1..128
  constexpr bool operator==(const Cidr6&) const noexcept = default;
};

// Of a host: not a network, broadcast, multicast, loopback or unspecified address.
[[nodiscard]] Parsed<Cidr4> parse_cidr4(const std::string& text);
[[nodiscard]] Parsed<Cidr6> parse_cidr6(const std::string& text);
// Of a host, as above, without its network.
[[nodiscard]] Parsed<Ipv4> parse_ipv4(const std::string& text);
// Whether the address lies in the network.
[[nodiscard]] bool same_network(const Ipv4& address, const Cidr4& network) noexcept;
// A unicast address, aa:bb:cc:dd:ee:ff.
[[nodiscard]] Parsed<Mac> parse_mac(const std::string& text);

[[nodiscard]] std::string to_text(const Cidr4& cidr);
[[nodiscard]] std::string to_text(const Cidr6& cidr);
[[nodiscard]] std::string to_text(const Ipv4& address);
[[nodiscard]] std::string to_text(const Mac& mac);

}  // namespace tally::config
