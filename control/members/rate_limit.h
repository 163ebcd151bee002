#pragma once
// Limits on what strangers can make the box send: refusals and REJECTs 10/s, PROBE echoes 100/s per source
// address (docs/protocol.md, 13). Nothing is allocated per source: an address hashes to one of 1,024 buckets.
// Two addresses may share a bucket and so its rate; which ones is unknown to them (the hash is keyed). In
// return the total is bounded too, however many addresses a sender forges.

#include <array>
#include <cstddef>
#include <cstdint>

#include "tally/net.h"
#include "tally/time.h"

namespace tally {

class RateLimit {
 public:
  // per_second >= 1 is also the burst.
  RateLimit(std::uint64_t per_second, std::uint64_t key) noexcept
      : interval_(kSecond / per_second), burst_(kSecond - interval_), key_(key) {}

  // Takes a token of the source's bucket; false if there is none.
  [[nodiscard]] bool take(const Ipv6& source, TimeNs now) noexcept;

 private:
  static constexpr std::size_t kBuckets = 1024;

  TimeNs interval_;
  TimeNs burst_;
  std::uint64_t key_;
  // A token bucket as one number (GCRA, ATM Forum TM 4.0): when its last token was or will be due.
  std::array<TimeNs, kBuckets> due_{};
};

}  // namespace tally
