#include "error_bound.h"

#include <algorithm>
#include <cmath>

namespace tally {

int bound_shift(std::uint32_t world) noexcept {
  const std::uint32_t most = 0x7fffffffU / world;
  int shift = 0;
  while ((most >> (shift + 1)) != 0) ++shift;
  return shift;
}

int bound_exponent(double largest) noexcept {
  int exponent = 0;
  const double mantissa =
      std::frexp(largest, &exponent);  // largest = mantissa * 2^exponent, 0.5 <= mantissa < 1
  if (mantissa == 0.5) --exponent;
  return std::max(exponent, -96);
}

double rounding_bound(std::uint32_t world, double largest) noexcept {
  if (largest == 0) return 0;
  return std::ldexp(static_cast<double>(world), bound_exponent(largest) - bound_shift(world) - 1);
}

std::string bound_text(std::uint32_t world) {
  return "abs(y - sum of x) <= N * 2^(E-s-1) + 2^-24 * abs(y)\n"
         "N = " +
         std::to_string(world) + " ranks, s = " + std::to_string(bound_shift(world)) +
         ", 2^E = the power of two at or above the largest abs(x) of the packet (docs/protocol.md, 10)";
}

}  // namespace tally
