#include "udp/udp_address.h"

#include <arpa/inet.h>

#include <array>
#include <cstring>

#include "text/text.h"

namespace tally::udp {

static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));

UdpAddress::UdpAddress(const Ipv6& ip, std::uint16_t port) noexcept : UdpAddress() {
  if (is_mapped_ipv4(ip)) {
    address_.v4.sin_family = AF_INET;
    std::memcpy(&address_.v4.sin_addr, ip.data() + 12, sizeof address_.v4.sin_addr);
  } else {
    address_.v6.sin6_family = AF_INET6;
    std::memcpy(&address_.v6.sin6_addr, ip.data(), sizeof address_.v6.sin6_addr);
  }
  set_port(port);
}

Ipv6 UdpAddress::ip() const noexcept {
  Ipv6 ip{};
  if (ipv4()) {
    Ipv4 v4{};
    std::memcpy(v4.data(), &address_.v4.sin_addr, v4.size());
    ip = mapped(v4);
  } else if (family() == AF_INET6) {
    std::memcpy(ip.data(), &address_.v6.sin6_addr, ip.size());
  }
  return ip;
}

bool UdpAddress::same_ip(const UdpAddress& other) const noexcept {
  if (family() != other.family()) return false;
  if (ipv4()) return address_.v4.sin_addr.s_addr == other.address_.v4.sin_addr.s_addr;
  return std::memcmp(&address_.v6.sin6_addr, &other.address_.v6.sin6_addr, sizeof(in6_addr)) == 0;
}

std::string UdpAddress::ip_text() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const void* const from = ipv4() ? static_cast<const void*>(&address_.v4.sin_addr) : &address_.v6.sin6_addr;
  if (inet_ntop(family(), from, text.data(), text.size()) == nullptr) return "no address";
  return text.data();
}

std::string UdpAddress::text() const {
  std::string text = ipv4() ? ip_text() : std::string("[").append(ip_text()).append("]");
  return text.append(":").append(std::to_string(port()));
}

std::optional<UdpAddress> parse_address(std::string_view text) {
  const auto ip = text::ip_address(text);
  return ip ? std::optional<UdpAddress>(*ip) : std::nullopt;
}

}  // namespace tally::udp
