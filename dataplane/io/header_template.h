#pragma once
// The Ethernet, VLAN, IP and UDP headers from the box to one receiver, made once. What differs from frame to
// frame is filled in: lengths, source port, checksums. Byte for byte what write_encapsulation() writes. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "binding.h"
#include "box.h"
#include "internet_sum.h"
#include "tally/net.h"

namespace tally {

class HeaderTemplate {
 public:
  HeaderTemplate() = default;
  HeaderTemplate(const Binding& to, const Box& box) noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  // 42, 46, 62 or 66
  [[nodiscard]] bool ipv6() const noexcept { return ipv6_; }

  // out: exactly bytes(). payload_sum: internet_sum() of the payload if ipv6(), else not looked at.
  void write(std::byte* out, std::uint16_t source_port, std::uint32_t payload_bytes,
             std::uint32_t payload_sum) const noexcept;

 private:
  std::array<std::byte, kMaxEncapsulation> header_{};  // lengths, source port and checksums 0
  std::uint8_t bytes_ = 0;
  bool ipv6_ = false;
  std::uint32_t sum_ = 0;  // of the IPv4 header, or of IPv6's pseudo header and UDP header, as they are here
};

}  // namespace tally
