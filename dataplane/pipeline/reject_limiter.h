#pragma once
// At most 10 REJECTs per second and source (docs/protocol.md, 13). A source has a bucket of its own: two that
// shared one would share its budget, and a worker whose neighbour asks about every chunk it waits for would
// never hear who is late. Where more sources than kWays meet in a set within a second, the last ones get no
// answer: made-up addresses cost at most the share of the table that their port has.

#include <array>
#include <cstdint>

#include "jobs/binding.h"
#include "tally/mix64.h"
#include "tally/time.h"

namespace tally::pipeline {

// Owner: one data core. Pure but for its table.
class RejectLimiter {
 public:
  static constexpr std::uint32_t kPerSecond = 10;
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kPorts = 32;  // a share of the table each
  static constexpr std::size_t kSetsOfPort = 16;

  // Takes a token of `source` (address, UDP port, ingress port); false = stay silent. now: never decreases.
  bool allow(const jobs::Binding& source, TimeNs now) noexcept {
    const std::uint64_t key = key_of(source);
    Bucket* const bucket = find(set_of(source), key, now);
    if (bucket == nullptr) return false;
    if (bucket->source != key || now - bucket->since >= kSecond) *bucket = {key, now, 0};
    if (bucket->used >= kPerSecond) return false;
    ++bucket->used;
    return true;
  }

  // Where the buckets of `source` may be.
  static std::size_t set_of(const jobs::Binding& source) noexcept {
    return raw(source.port) % kPorts * kSetsOfPort + key_of(source) % kSetsOfPort;
  }

 private:
  struct Bucket {
    std::uint64_t source = 0;
    TimeNs since = 0;
    std::uint32_t used = 0;  // 0: free
  };

  // The source's own bucket, else one that nobody uses any more, else none.
  Bucket* find(std::size_t set, std::uint64_t key, TimeNs now) noexcept {
    Bucket* free = nullptr;
    for (Bucket& bucket : sets_[set]) {
      if (bucket.source == key) return &bucket;
      if (bucket.used == 0 || now - bucket.since >= kSecond) free = &bucket;
    }
    return free;
  }

  static std::uint64_t key_of(const jobs::Binding& source) noexcept {
    std::uint64_t h = source.udp_port | std::uint64_t{raw(source.port)} << 16;
    for (const auto byte : source.address) h = mix64(h * 257 + byte);
    return h;
  }

  std::array<std::array<Bucket, kWays>, kPorts * kSetsOfPort> sets_{};
};

}  // namespace tally::pipeline
