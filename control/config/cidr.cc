#include "config/cidr.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include <arpa/inet.h>
#include <netinet/ether.h>
#include <strings.h>

#include "config/units.h"

namespace tally::config {
namespace {

struct Split {
  std::string address;
  std::uint8_t prefix = 0;
};

// ADDRESS/PREFIX. example: the prefix to suggest when there is none.
Parsed<Split> split_prefix(const std::string& text, unsigned longest, const std::string& example) {
  const auto slash = text.find('/');
  if (slash == std::string::npos) {
    return complain(shown(text) + " has no network length",
                    "write it behind the address, such as " + text + example);
  }
  const auto prefix = parse_unsigned(text.substr(slash + 1));
  if (!prefix || *prefix < 1 || *prefix > longest) {
    return complain(shown(text) + ": the network length must be 1 to " + std::to_string(longest),
                    "write it as " + text.substr(0, slash) + example);
  }
  return Split{text.substr(0, slash), static_cast<std::uint8_t>(*prefix)};
}

std::uint32_t number_of(const Ipv4& a) {
  return std::uint32_t{a[0]} << 24U | std::uint32_t{a[1]} << 16U | std::uint32_t{a[2]} << 8U | a[3];
}

// Why no host can have this address; nullptr if one can.
const char* not_a_host(const Cidr4& c) {
  const std::uint32_t address = number_of(c.address);
  const std::uint32_t host = c.prefix >= 31 ? 1 : address & (0xFFFFFFFFU >> c.prefix);
  if (c.address[0] == 0) return "is not an address of a host";
  if (c.address[0] == 127) return "is a loopback address: no packet carries it";
  if (c.address[0] >= 224) return "is a multicast or reserved address";
  if (host == 0) return "is the network itself, not a host in it";
  if (c.prefix < 31 && host == (0xFFFFFFFFU >> c.prefix)) return "is the broadcast address of its network";
  return nullptr;
}

const char* not_a_host(const Cidr6& c) {
  const bool zeros =
      std::all_of(c.address.begin(), c.address.end() - 1, [](std::uint8_t b) { return b == 0; });
  if (zeros && c.address[15] <= 1) return "is the unspecified or the loopback address";
  if (c.address[0] == 0xFF) return "is a multicast address";
  if (is_mapped_ipv4(c.address)) return "is an IPv4 address in disguise; it belongs in ipv4";
  return nullptr;
}

template <class Cidr>
Parsed<Cidr> parse_cidr(const std::string& text, int family, const char* example_length,
                        const char* example) {
  const bool is4 = family == AF_INET;
  std::array<std::uint8_t, 16> other{};
  if (inet_pton(is4 ? AF_INET6 : AF_INET, text.substr(0, text.find('/')).c_str(), other.data()) == 1) {
    return complain(shown(text) + (is4 ? " is an IPv6 address" : " is an IPv4 address"),
                    is4 ? "write it behind ipv6" : "write it behind ipv4");
  }
  const auto split = split_prefix(text, is4 ? 32 : 128, example_length);
  if (!split) return tl::unexpected<Complaint>(split.error());
  Cidr cidr;
  cidr.prefix = split->prefix;
  if (inet_pton(family, split->address.c_str(), cidr.address.data()) != 1) {
    return complain(shown(split->address) + (is4 ? " is not an IPv4 address" : " is not an IPv6 address"),
                    std::string("write an address such as ") + example);
  }
  if (const char* why = not_a_host(cidr)) {
    return complain(split->address + " " + why,
                    std::string("write the box's own address in that network, such as ") + example);
  }
  return cidr;
}

std::string address_text(int family, const void* address, unsigned prefix) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(family, address, text.data(), text.size());
  return std::string(text.data()) + "/" + std::to_string(prefix);
}

// ether_aton(3) takes single digits too, and does not look behind the sixth pair.
std::optional<Mac> mac_of(const std::string& text) {
  ether_addr address{};
  if (ether_aton_r(text.c_str(), &address) == nullptr) return std::nullopt;
  const auto mac = std::bit_cast<Mac>(address);
  return strcasecmp(to_text(mac).c_str(), text.c_str()) == 0 ? std::optional(mac) : std::nullopt;
}

}  // namespace

Parsed<Cidr4> parse_cidr4(const std::string& text) {
  return parse_cidr<Cidr4>(text, AF_INET, "/24", "10.0.0.1/24");
}

Parsed<Cidr6> parse_cidr6(const std::string& text) {
  return parse_cidr<Cidr6>(text, AF_INET6, "/64", "fd00::1/64");
}

Parsed<Ipv4> parse_ipv4(const std::string& text) {
  const char* const example = "write an address such as 10.0.0.11";
  Cidr4 alone{.prefix = 32};
  if (text.find('/') != std::string::npos) {
    return complain(shown(text) + " has a network length, which a single address needs none of",
                    "write " + text.substr(0, text.find('/')));
  }
  if (inet_pton(AF_INET, text.c_str(), alone.address.data()) != 1)
    return complain(shown(text) + " is not an IPv4 address", example);
  if (const char* why = not_a_host(alone)) return complain(text + " " + why, example);
  return alone.address;
}

bool same_network(const Ipv4& address, const Cidr4& network) noexcept {
  const std::uint32_t mask = ~std::uint32_t{0} << (32U - network.prefix);
  return ((number_of(address) ^ number_of(network.address)) & mask) == 0;
}

Parsed<Mac> parse_mac(const std::string& text) {
  const auto mac = mac_of(text);
  const char* const example = "write six pairs of hexadecimal digits, such as 02:00:00:00:00:01";
  if (!mac) return complain(shown(text) + " is not a MAC address", example);
  if (*mac == Mac{}) return complain("the MAC address is all zeros", example);
  if (((*mac)[0] & 1U) != 0) {
    return complain(shown(text) + " is a multicast address", "the lowest bit of the first pair must be 0");
  }
  return *mac;
}

std::string to_text(const Cidr4& cidr) { return address_text(AF_INET, cidr.address.data(), cidr.prefix); }
std::string to_text(const Cidr6& cidr) { return address_text(AF_INET6, cidr.address.data(), cidr.prefix); }

std::string to_text(const Ipv4& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, address.data(), text.data(), text.size());
  return text.data();
}

std::string to_text(const Mac& mac) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const std::uint8_t byte : mac) {
    if (!out.empty()) out += ':';
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

}  // namespace tally::config
