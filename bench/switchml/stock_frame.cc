#include "stock_frame.h"

#include <array>

namespace tally::stock {
namespace {

std::uint32_t words_of(std::span<const std::byte> bytes) noexcept {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
    sum += std::to_integer<std::uint32_t>(bytes[i]) << 8 | std::to_integer<std::uint32_t>(bytes[i + 1]);
  return sum;
}

std::uint16_t folded(std::uint32_t sum) noexcept {
  while ((sum >> 16) != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

void address(FrameHeads& h, const StockAddresses& a, std::uint16_t thread) noexcept {
  h.ethernet.source = a.mac;
  h.ethernet.destination = a.switch_mac;
  h.ip.source = a.ipv4;
  h.ip.destination = a.switch_ipv4;
  h.ip.checksum = Be{std::uint16_t{0}};
  h.udp.source = Be{static_cast<std::uint16_t>(kWorkerPort + thread)};
  h.udp.destination = Be{kSwitchPort};
  h.udp.checksum = Be{partial_udp_checksum(h.ip, h.udp.length.host())};
}

}  // namespace

std::uint16_t ipv4_checksum(const Ipv4Header& ip) noexcept {
  return static_cast<std::uint16_t>(~folded(words_of(std::as_bytes(std::span{&ip, 1}))));
}

std::uint16_t partial_udp_checksum(const Ipv4Header& ip, std::uint16_t udp_bytes) noexcept {
  return folded(words_of(std::as_bytes(std::span{ip.source})) +
                words_of(std::as_bytes(std::span{ip.destination})) + ip.protocol + udp_bytes);
}

FrameHeads fresh_heads(const StockAddresses& addresses, std::uint16_t thread,
                       std::uint16_t payload) noexcept {
  FrameHeads h;
  h.ethernet.type = Be{kEtherIpv4};
  h.ip.total_length = Be{static_cast<std::uint16_t>(kHeads - sizeof h.ethernet + payload)};
  h.ip.ttl = kClientTtl;
  h.udp.length = Be{static_cast<std::uint16_t>(sizeof h.udp + sizeof h.switchml + payload)};
  h.switchml.type_size = static_cast<std::uint8_t>(kMessage | size_code(payload));
  address(h, addresses, thread);
  return h;
}

void turn_round(FrameHeads& h, const StockAddresses& addresses, std::uint16_t thread) noexcept {
  address(h, addresses, thread);
}

}  // namespace tally::stock
