#pragma once
// What all contributions of a chunk must agree on.

#include <cstdint>

namespace tally {

struct Shape {
  std::uint32_t total = 0;     // elements of the whole operation modulo 2^32
  std::uint16_t elements = 0;  // of this chunk
  std::uint8_t dtype = 0;
  std::uint8_t unused = 0;
  constexpr bool operator==(const Shape&) const noexcept = default;
};

}  // namespace tally
