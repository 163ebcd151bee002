#pragma once
// Frames of a SwitchML client: Ethernet 14, IPv4 20, UDP 8, header 8, exponents 2, values. Written from the
// description of the dialect alone, so that these clients and the box check each other. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "tally/be.h"
#include "tally/net.h"

namespace tally::stock {

inline constexpr std::uint16_t kSwitchPort = 48864;  // 0xBEE0
inline constexpr std::uint16_t kWorkerPort = 4000;   // of thread 0; thread t has the t-th after it
inline constexpr std::uint16_t kSetBit = 0x8000;     // of pool_index; bits 13..0 are the slot
inline constexpr std::uint16_t kSlotMask = 0x3fff;
inline constexpr std::uint8_t kMessage = 0x10;  // msg_type 1, both ways; the low three bits are the size
inline constexpr std::uint8_t kClientTtl = 128;

// As it lies on the wire, behind UDP.
struct StockHeader {
  std::uint8_t type_size = kMessage;
  std::uint8_t job = 0;               // the client's running allreduce number modulo 256
  std::array<std::uint8_t, 4> tsi{};  // number of the packet in its operation, little-endian
  Be<std::uint16_t> pool_index;
  std::int8_t e0 = 0;
  std::int8_t e1 = 0;
};

struct FrameHeads {
  EthernetHeader ethernet;
  Ipv4Header ip;
  UdpHeader udp;
  StockHeader switchml;
};
static_assert(sizeof(StockHeader) == 10 && alignof(FrameHeads) == 1 && sizeof(FrameHeads) == 52);

inline constexpr std::size_t kHeads = sizeof(FrameHeads);

// Bytes of values: 128, 256, 512 or 1024.
[[nodiscard]] constexpr bool valid_payload(std::uint16_t bytes) noexcept {
  return bytes == 128 || bytes == 256 || bytes == 512 || bytes == 1024;
}
[[nodiscard]] constexpr std::uint8_t size_code(std::uint16_t payload) noexcept {
  return payload == 128 ? 0 : payload == 256 ? 1 : payload == 512 ? 2 : 3;
}

// frame: at least kHeads bytes.
[[nodiscard]] inline FrameHeads heads_of(std::span<const std::byte> frame) noexcept {
  FrameHeads h;
  std::memcpy(&h, frame.data(), sizeof h);
  return h;
}
inline void set_heads(std::span<std::byte> frame, const FrameHeads& h) noexcept {
  std::memcpy(frame.data(), &h, sizeof h);
}

[[nodiscard]] constexpr std::uint32_t tsi_of(const StockHeader& h) noexcept {
  return h.tsi[0] | static_cast<std::uint32_t>(h.tsi[1]) << 8 | static_cast<std::uint32_t>(h.tsi[2]) << 16 |
         static_cast<std::uint32_t>(h.tsi[3]) << 24;
}
constexpr void set_tsi(StockHeader& h, std::uint32_t number) noexcept {
  for (std::uint8_t& byte : h.tsi) {
    byte = static_cast<std::uint8_t>(number);
    number >>= 8;
  }
}

// Packet numbers that mean nothing to the switch: all clients of a session agree on them, neighbours are far
// apart, and later packets often have lower ones. A bijection, and its inverse.
inline constexpr std::uint32_t kScramble = 0x9E3779B1, kUnscramble = 0x0E8B2F51;
static_assert(kScramble * kUnscramble == 1);
constexpr void scramble_tsi(StockHeader& h) noexcept { set_tsi(h, tsi_of(h) * kScramble); }
constexpr void unscramble_tsi(StockHeader& h) noexcept { set_tsi(h, tsi_of(h) * kUnscramble); }

// RFC 1071, over the header with its checksum field as it is: 0 if that is right.
[[nodiscard]] std::uint16_t ipv4_checksum(const Ipv4Header& ip) noexcept;
// What a driver leaves in UDP's checksum for the card to complete: the sum of the pseudo header.
[[nodiscard]] std::uint16_t partial_udp_checksum(const Ipv4Header& ip, std::uint16_t udp_bytes) noexcept;

struct StockAddresses {
  Mac mac{};
  Ipv4 ipv4{};
  Mac switch_mac{};
  Ipv4 switch_ipv4{};
};

// A request as it is made anew: the heads for `payload` bytes of values. The IPv4 checksum is 0 and UDP's
// partial, as cards that complete them are given them.
[[nodiscard]] FrameHeads fresh_heads(const StockAddresses& addresses, std::uint16_t thread,
                                     std::uint16_t payload) noexcept;
// A reply turned into a request in place: addresses, ports and the checksums. Everything else stays as the
// switch sent it.
void turn_round(FrameHeads& h, const StockAddresses& addresses, std::uint16_t thread) noexcept;

}  // namespace tally::stock
