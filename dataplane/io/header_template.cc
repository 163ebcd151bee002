#include "header_template.h"

#include <cstring>

#include "reply.h"

namespace tally {
namespace {

template <class T>
T header_at(const std::byte* at) noexcept {
  T header;
  std::memcpy(&header, at, sizeof header);
  return header;
}
template <class T>
void put(std::byte* at, const T& value) noexcept {
  std::memcpy(at, &value, sizeof value);
}
using Be16 = Be<std::uint16_t>;

}  // namespace

HeaderTemplate::HeaderTemplate(const Binding& to, const Box& box, std::uint16_t source_port,
                               std::uint16_t fragment) noexcept
    : bytes_(static_cast<std::uint8_t>(encapsulation_bytes(to))), ipv6_(!is_mapped_ipv4(to.address)) {
  write_encapsulation(std::span{header_}.first(bytes_), to, box, source_port, {}, fragment);
  std::byte* const udp_at = header_.data() + bytes_ - sizeof(UdpHeader);
  auto udp = header_at<UdpHeader>(udp_at);
  udp.length = {};
  udp.checksum = {};
  put(udp_at, udp);
  if (ipv6_) {
    std::byte* const ip_at = udp_at - sizeof(Ipv6Header);
    auto ip = header_at<Ipv6Header>(ip_at);
    ip.payload_length = {};
    put(ip_at, ip);
    sum_ = internet_sum(std::as_bytes(std::span{ip.source})) +
           internet_sum(std::as_bytes(std::span{ip.destination})) +
           internet_sum(std::as_bytes(std::span{&udp, 1})) + kProtocolUdp;
  } else {
    std::byte* const ip_at = udp_at - sizeof(Ipv4Header);
    auto ip = header_at<Ipv4Header>(ip_at);
    ip.total_length = {};
    ip.checksum = {};
    put(ip_at, ip);
    sum_ = internet_sum(std::as_bytes(std::span{&ip, 1}));
  }
}

void HeaderTemplate::set_destination_port(std::uint16_t port) noexcept {
  put(header_.data() + bytes_ - sizeof(UdpHeader) + offsetof(UdpHeader, destination), Be16{port});
}

void HeaderTemplate::write(std::byte* out, std::uint16_t source_port, std::uint32_t payload_bytes,
                           std::uint32_t payload_sum) const noexcept {
  // The usual size first, as a constant: two or three moves instead of a call.
  constexpr std::size_t kIpv4 = sizeof(EthernetHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader);
  if (bytes_ == kIpv4) {
    std::memcpy(out, header_.data(), kIpv4);
  } else {
    std::memcpy(out, header_.data(), bytes_);
  }
  std::byte* const udp = out + bytes_ - sizeof(UdpHeader);
  const auto length = static_cast<std::uint16_t>(sizeof(UdpHeader) + payload_bytes);
  if (source_port != 0) put(udp + offsetof(UdpHeader, source), Be16{source_port});
  put(udp + offsetof(UdpHeader, length), Be16{length});
  if (ipv6_) {
    put(udp - sizeof(Ipv6Header) + offsetof(Ipv6Header, payload_length), Be16{length});
    // The length counts twice: in the pseudo header and in the UDP header.
    const auto check = static_cast<std::uint16_t>(~folded(sum_ + source_port + 2U * length + payload_sum));
    put(udp + offsetof(UdpHeader, checksum), Be16{check == 0 ? std::uint16_t{0xFFFF} : check});
  } else {
    std::byte* const ip = udp - sizeof(Ipv4Header);
    const auto total = static_cast<std::uint16_t>(sizeof(Ipv4Header) + length);
    put(ip + offsetof(Ipv4Header, total_length), Be16{total});
    put(ip + offsetof(Ipv4Header, checksum), Be16{static_cast<std::uint16_t>(~folded(sum_ + total))});
  }
}

}  // namespace tally
