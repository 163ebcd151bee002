#pragma once
// The wire format of SwitchML's clients, which the box speaks as a second dialect. Source: the published
// client and switch program of SwitchML (NSDI'21); docs/switchml.md says what differs here. IPv4 only,
// without a VLAN tag. A frame: Ethernet 14 | IPv4 20 | UDP 8 | this header 10 | values.

#include <array>
#include <cstddef>
#include <cstdint>

#include "tally/be.h"

namespace tally::switchml {

inline constexpr std::uint16_t kBasePort = 0xBEE0;  // UDP destination of contributions: 16 ports from here on
inline constexpr std::uint16_t kPorts = 16;
inline constexpr std::size_t kHeaderBytes = 10;
inline constexpr std::uint32_t kMinPayload = 128;  // bytes of values: 128 << size, size 0..3
inline constexpr std::uint32_t kMaxPayload = 1024;
inline constexpr std::uint32_t kMaxSlots = 1U << 14U;  // slots that pool_index can name
inline constexpr std::uint16_t kSetBit = 0x8000;       // of pool_index
inline constexpr std::uint16_t kSlotMask = 0x3FFF;

// The header in front of the values (int32, big-endian). All of it is echoed in results, but for the
// exponents, which are the maxima.
struct PacketHeader {
  std::uint8_t type_size = 0x10;  // message type 1 in the upper half, bit 3 unused, size in bits 2..0
  std::uint8_t job_number = 0;    // the client's running operation modulo 256: no tenant
  std::array<std::uint8_t, 4> tsi_bytes{};  // little-endian in practice; echoed as it came
  Be<std::uint16_t> pool_index;             // kSetBit: the set; kSlotMask: the slot
  std::int8_t exponent0 = 0;
  std::int8_t exponent1 = 0;

  [[nodiscard]] constexpr std::uint32_t tsi() const noexcept {  // the client's packet number
    return tsi_bytes[0] | std::uint32_t{tsi_bytes[1]} << 8U | std::uint32_t{tsi_bytes[2]} << 16U |
           std::uint32_t{tsi_bytes[3]} << 24U;
  }
};
static_assert(sizeof(PacketHeader) == kHeaderBytes && alignof(PacketHeader) == 1);

constexpr bool is_port(std::uint16_t udp) noexcept { return udp >= kBasePort && udp < kBasePort + kPorts; }

// 128, 256, 512 or 1024.
constexpr bool valid_payload(std::uint32_t bytes) noexcept {
  return bytes >= kMinPayload && bytes <= kMaxPayload && (bytes & (bytes - 1)) == 0;
}

}  // namespace tally::switchml
