#pragma once
// splitmix64 (Steele, Lea, Flood, OOPSLA'14): nonces of one engine, reproducible from its seed. Uniqueness is
// what a nonce needs; secrecy comes from the caller's seed.

#include <cstdint>

#include "tally/mix64.h"

namespace tally {

class EngineRandom {
 public:
  explicit constexpr EngineRandom(std::uint64_t seed) noexcept : state_(seed) {}
  constexpr std::uint64_t next() noexcept { return mix64(state_ += 0x9e3779b97f4a7c15ULL); }
  constexpr std::uint64_t next_nonzero() noexcept {
    std::uint64_t word = next();
    while (word == 0) word = next();
    return word;
  }

 private:
  std::uint64_t state_;
};

}  // namespace tally
