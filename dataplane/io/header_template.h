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
#include "reply.h"
#include "tally/net.h"

namespace tally {

class HeaderTemplate {
 public:
  HeaderTemplate() = default;
  // source_port: 0, or that of all frames. fragment: as of write_encapsulation().
  HeaderTemplate(const Binding& to, const Box& box, std::uint16_t source_port = 0,
                 std::uint16_t fragment = kDontFragment) noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  // 42, 46, 62 or 66
  [[nodiscard]] bool ipv6() const noexcept { return ipv6_; }

  // Where the frames go from now on, instead of to.udp_port. IPv4.
  void set_destination_port(std::uint16_t port) noexcept;

  // source_port: 0 if all frames have the same. out: exactly bytes(). payload_sum: internet_sum() of the
  // payload if ipv6(), else not looked at.
  void write(std::byte* out, std::uint16_t source_port, std::uint32_t payload_bytes,
             std::uint32_t payload_sum) const noexcept;

 private:
  std::array<std::byte, kMaxEncapsulation> header_{};  // lengths, checksums and mostly source port 0
  std::uint8_t bytes_ = 0;
  bool ipv6_ = false;
  std::uint32_t sum_ = 0;  // of the IPv4 header, or of IPv6's pseudo header and UDP header, as they are here
};

}  // namespace tally
