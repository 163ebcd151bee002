#pragma once
// An IP address and UDP port in the form that the kernel takes and gives.

#include <netinet/in.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tally/net.h"

namespace tally::udp {

class UdpAddress {
 public:
  UdpAddress() noexcept : address_{} {}                                  // of no family, port 0
  explicit UdpAddress(const Ipv6& ip, std::uint16_t port = 0) noexcept;  // IPv4 as ::ffff:a.b.c.d

  [[nodiscard]] sa_family_t family() const noexcept { return address_.any.sa_family; }
  [[nodiscard]] bool ipv4() const noexcept { return family() == AF_INET; }
  [[nodiscard]] Ipv6 ip() const noexcept;  // IPv4 as ::ffff:a.b.c.d
  [[nodiscard]] std::uint16_t port() const noexcept { return ntohs(address_.v4.sin_port); }
  void set_port(std::uint16_t port) noexcept { address_.v4.sin_port = htons(port); }
  [[nodiscard]] bool same_ip(const UdpAddress& other) const noexcept;
  // 10.0.0.1:48896, [fd00::1]:48896; ip_text() without the port.
  [[nodiscard]] std::string text() const;
  [[nodiscard]] std::string ip_text() const;

  // For system calls.
  [[nodiscard]] sockaddr* raw() noexcept { return &address_.any; }
  [[nodiscard]] const sockaddr* raw() const noexcept { return &address_.any; }
  [[nodiscard]] socklen_t size() const noexcept {
    return ipv4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  }
  static constexpr socklen_t kRoom = sizeof(sockaddr_in6);

 private:
  // Family and port lie at the same place in all of them. The largest comes first: it is what {} clears.
  union {
    sockaddr_in6 v6;
    sockaddr_in v4;
    sockaddr any;
  } address_;
};

// An IP address as people write it, without a port, scope or prefix length; IPv4 in IPv6's notation is none.
[[nodiscard]] std::optional<UdpAddress> parse_address(std::string_view text);

}  // namespace tally::udp
