#pragma once
// The one source of randomness of tests and simulator: splitmix64, seeded, the same on every machine.

#include <cstdint>

#include "tally/mix64.h"

namespace tally {

class Rng {
 public:
  explicit Rng(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  // 0..n-1; n > 0. The bias of the remainder does not matter here.
  std::uint64_t below(std::uint64_t n) noexcept { return next() % n; }
  // low..high, both included.
  std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
    return low + below(high - low + 1);
  }
  bool chance(double p) noexcept { return unit() < p; }
  double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }
  // In half of the cases 0; then up to `most`, small ones as likely as large ones.
  double often_none(double most) noexcept { return chance(0.5) ? 0 : most * unit() * unit(); }

 private:
  std::uint64_t state_;
};

}  // namespace tally
