#include "l2/l2_headers.h"

#include <cstring>

namespace tally::l2 {

// In 32-bit words of the machine's order, so that the compiler can vectorise it; the sum's bytes are then in
// the other order (RFC 1071, 2, B).
std::uint32_t internet_sum(std::span<const std::byte> bytes) noexcept {
  std::uint64_t sum = 0;
  std::size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    sum += word;
  }
  std::uint32_t rest = 0;
  if (i < bytes.size()) std::memcpy(&rest, bytes.data() + i, bytes.size() - i);
  sum += rest;
  sum = (sum & 0xFFFF'FFFF) + (sum >> 32);
  const auto half = (sum & 0xFFFF) + (sum >> 16 & 0xFFFF) + (sum >> 32);
  return __builtin_bswap16(folded(static_cast<std::uint32_t>(half)));
}

}  // namespace tally::l2
