#pragma once
// When to say something again to control: at once, then after 100 ms doubling to 1 s. Used for JOIN, LEAVE
// and ABORT. start() never brings the next saying closer than 100 ms to the last.

#include <algorithm>
#include <cstdint>

#include "tally/mix64.h"
#include "tally/time.h"

namespace tally::engine {

inline constexpr TimeNs kFirstRepeat = 100 * kMillisecond;
inline constexpr TimeNs kLastRepeat = kSecond;

class Backoff {
 public:
  void start(TimeNs now) noexcept {
    due_ = said_before_ ? std::max(now, last_ + kFirstRepeat) : now;
    interval_ = kFirstRepeat;
    tries_ = 0;
  }
  void stop() noexcept { due_ = kNever; }
  void said(TimeNs now) noexcept {
    said_before_ = true;
    last_ = now;
    due_ = now + interval_;
    interval_ = std::min(2 * interval_, kLastRepeat);
    ++tries_;
  }
  // Not before that time.
  void put_off(TimeNs until) noexcept { due_ = std::max(due_, until); }
  [[nodiscard]] TimeNs due() const noexcept { return due_; }
  [[nodiscard]] std::uint32_t tries() const noexcept { return tries_; }

 private:
  TimeNs due_ = kNever;
  TimeNs last_ = 0;
  TimeNs interval_ = kFirstRepeat;
  std::uint32_t tries_ = 0;
  bool said_before_ = false;
};

// splitmix64 (Steele, Lea, Flood, OOPSLA'14): nonces of one engine, reproducible from its seed. Uniqueness is
// what a nonce needs; secrecy comes from the caller's seed.

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

}  // namespace tally::engine
