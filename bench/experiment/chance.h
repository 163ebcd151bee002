#pragma once
// Random numbers that depend on what they are for, not on how many were drawn before: runs of one seed with
// other disciplines meet the same compute times and the same stalls, so that they can be compared in pairs.

#include <cmath>
#include <cstdint>

#include "tally/mix64.h"

namespace tally::experiment {

enum class Purpose : std::uint8_t {
  kArrival = 1,
  kCompute,
  kStall,
  kStallTime,
  kJitter,
  kLoss,
  kMix,
  kPriority,
  kRegime
};

class Chance {
 public:
  explicit Chance(std::uint64_t seed) noexcept : seed_(mix64(seed + kStep)) {}

  [[nodiscard]] std::uint64_t word(Purpose purpose, std::uint64_t a = 0, std::uint64_t b = 0) const noexcept {
    std::uint64_t x = mix64(seed_ ^ (static_cast<std::uint64_t>(purpose) * kStep));
    x = mix64((x ^ a) + kStep);
    return mix64((x ^ b) + kStep);
  }
  // 0 <= x < 1.
  [[nodiscard]] double unit(Purpose purpose, std::uint64_t a = 0, std::uint64_t b = 0) const noexcept {
    return static_cast<double>(word(purpose, a, b) >> 11) * 0x1p-53;
  }
  // Mean 1, cut off at 7.
  [[nodiscard]] double exponential(Purpose purpose, std::uint64_t a, std::uint64_t b) const noexcept {
    return -std::log(1 - 0.999 * unit(purpose, a, b));
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ULL;
  std::uint64_t seed_;
};

}  // namespace tally::experiment
