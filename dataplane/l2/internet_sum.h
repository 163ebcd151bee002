#pragma once
// The Internet checksum (RFC 1071).

#include <cstddef>
#include <cstdint>
#include <span>

namespace tally {

// One's complement sum of the bytes as big-endian 16-bit words, folded to 16 bits; an odd last byte is
// padded. Sums of parts may be added before they are folded, if all parts but the last have an even length.
[[nodiscard]] std::uint32_t internet_sum(std::span<const std::byte> bytes) noexcept;

// `sum` as 16 bits.
[[nodiscard]] constexpr std::uint16_t folded(std::uint32_t sum) noexcept {
  while ((sum >> 16) != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(sum);
}

}  // namespace tally
