#include "packets.h"

#include <algorithm>

#include "frames.h"
#include "tally/net.h"

namespace tally::experiment {
namespace {

constexpr std::size_t kIpOffset = sizeof(EthernetHeader);
constexpr std::size_t kUdpOffset = kIpOffset + sizeof(Ipv4Header);
static_assert(kUdpOffset + sizeof(UdpHeader) == kOuterBytes);

}  // namespace

OuterHeaders::OuterHeaders(const jobs::Binding& from, const jobs::Box& box) {
  const std::array<std::byte, kHeaderBytes> empty{};
  const Bytes frame = wrap(empty, from, box, kBasePort);
  std::copy_n(frame.begin(), kOuterBytes, bytes_.begin());
}

void OuterHeaders::put(Packet& packet, std::uint16_t destination_port) const noexcept {
  std::memcpy(packet.bytes.data(), bytes_.data(), kOuterBytes);
  const auto udp_bytes = static_cast<std::uint16_t>(sizeof(UdpHeader) + packet.datagram_bytes);
  const Be<std::uint16_t> total{static_cast<std::uint16_t>(sizeof(Ipv4Header) + udp_bytes)};
  const Be<std::uint16_t> length{udp_bytes};
  const Be<std::uint16_t> port{destination_port};
  std::byte* const at = packet.bytes.data();
  std::memcpy(at + kIpOffset + offsetof(Ipv4Header, total_length), &total, sizeof total);
  std::memcpy(at + kUdpOffset + offsetof(UdpHeader, destination), &port, sizeof port);
  std::memcpy(at + kUdpOffset + offsetof(UdpHeader, length), &length, sizeof length);
}

}  // namespace tally::experiment
