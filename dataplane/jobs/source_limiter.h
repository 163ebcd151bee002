#pragma once
// Budgets of sources (docs/protocol.md, 13): what strangers can make the box do, and say.

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "jobs/binding.h"
#include "tally/mix64.h"
#include "tally/time.h"

namespace tally::jobs {

struct Budget {
  std::uint32_t per_second = 1;  // not 0
  std::uint32_t burst = 1;       // at once; not 0
};

// A token bucket as one number (GCRA, ATM Forum TM 4.0): when its last token was or will be due.
class TokenBucket {
 public:
  bool take(const Budget& budget, TimeNs now) noexcept {
    if (!ready(budget, now)) return false;
    due_ = std::max(due_, now) + kSecond / budget.per_second;
    return true;
  }
  // Would take() give one?
  [[nodiscard]] bool ready(const Budget& budget, TimeNs now) const noexcept {
    return due_ <= now || due_ - now <= kSecond / budget.per_second * (budget.burst - 1);
  }
  // As one that was never used.
  [[nodiscard]] bool full(TimeNs now) const noexcept { return due_ <= now; }

 private:
  TimeNs due_ = 0;
};

// A bucket for each source in use, in a table that does not grow. Two sources that shared one would share its
// budget: a worker whose neighbour asks without end would never be answered. Each port of the box has a share
// of the table, and where all buckets that a source may have are in use it gets nothing: so made-up addresses
// cost those behind the same port, and nobody else. Owner: one thread. now: never decreases.
class SourceLimiter {
 public:
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kPorts = 32;  // a share of the table each
  static constexpr std::size_t kSetsOfPort = 16;

  // key: who does not know it cannot tell whose buckets are in one set.
  SourceLimiter(const Budget& budget, std::uint64_t key) noexcept : budget_(budget), key_(key) {}

  // Takes a token of `source`: address, UDP port, ingress port and VLAN. False: there is none.
  bool take(const Binding& source, TimeNs now) noexcept {
    const std::uint64_t name = name_of(source);
    Bucket* bucket = nullptr;
    for (Bucket& b : sets_[set_of(source)]) {
      if (b.source == name) {
        bucket = &b;
        break;
      }
      if (b.tokens.full(now)) bucket = &b;
    }
    if (bucket == nullptr) return false;
    if (bucket->source != name) *bucket = {name, {}};
    return bucket->tokens.take(budget_, now);
  }

  // Where the buckets of `source` may be.
  [[nodiscard]] std::size_t set_of(const Binding& source) const noexcept {
    return raw(source.port) % kPorts * kSetsOfPort + name_of(source) % kSetsOfPort;
  }

 private:
  struct Bucket {
    std::uint64_t source = 0;
    TokenBucket tokens{};
  };

  [[nodiscard]] std::uint64_t name_of(const Binding& source) const noexcept {
    std::array<std::uint64_t, 2> words{};
    std::memcpy(words.data(), source.address.data(), sizeof words);
    const std::uint64_t ports =
        source.udp_port | std::uint64_t{raw(source.port)} << 16 | std::uint64_t{source.vlan} << 32;
    return mix64(mix64(mix64(words[0] ^ key_) ^ std::rotl(words[1], 32) ^ key_) ^ ports);
  }

  Budget budget_;
  std::uint64_t key_;
  std::array<std::array<Bucket, kWays>, kPorts * kSetsOfPort> sets_{};
};

// All of a host together, whatever UDP ports it sends from.
constexpr Binding host_of(Binding source) noexcept {
  source.udp_port = 0;
  return source;
}

}  // namespace tally::jobs
