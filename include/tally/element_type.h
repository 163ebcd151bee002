#pragma once
// What a program's arrays hold. How they travel is WireType's business.

#include <cstddef>
#include <cstdint>

namespace tally {

// Floats of 16 bits are widened at the worker, summed as floats are, and rounded once (ties to even).
enum class ElementType : std::uint8_t {
  kFloat32,
  kInt32,     // sums modulo 2^32; OperationStats::overflow tells of it
  kFloat16,   // IEEE 754 binary16; what exceeds 65,504 becomes infinite
  kBfloat16,  // the upper half of a float
};

constexpr bool is_float(ElementType type) noexcept { return type != ElementType::kInt32; }
constexpr std::size_t bytes_of(ElementType type) noexcept {
  return type == ElementType::kFloat16 || type == ElementType::kBfloat16 ? 2 : 4;
}

}  // namespace tally
