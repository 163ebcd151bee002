#pragma once
// IP addresses and networks as the file of a cluster has them: each one, or a range with the syntax of names.

#include <cstdint>
#include <string>
#include <vector>

#include "config/diagnostic.h"
#include "config/value_types.h"
#include "tally/net.h"

namespace tally::cluster {

// IPv4 as ::ffff:a.b.c.d, with 96 more of prefix.
struct IpNetwork {
  Ipv6 address{};  // no bit behind the prefix
  std::uint8_t prefix = 128;

  [[nodiscard]] bool contains(const Ipv6& other) const noexcept;
  auto operator<=>(const IpNetwork&) const = default;
};
// 10.0.1.0/24, fd00:1::/64
[[nodiscard]] std::string network_text(const IpNetwork& network);

// 10.0.[1-16].0/24: sixteen of them, in order.
[[nodiscard]] config::Parsed<std::vector<IpNetwork>> parse_networks(const std::string& text);
// 10.0.[1-16].1
[[nodiscard]] config::Parsed<std::vector<Ipv6>> parse_addresses(const std::string& text);

// One such text, or a list of them.
[[nodiscard]] config::ValueType<std::vector<IpNetwork>> networks_type();
[[nodiscard]] config::ValueType<std::vector<Ipv6>> addresses_type();

}  // namespace tally::cluster
