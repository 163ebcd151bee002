#pragma once
// At most 10 REJECTs per second and source (protocol.md, Words). A direct-mapped table of token buckets:
// sources that share a bucket share its budget, which errs towards silence; a worker only needs one.

#include <array>
#include <cstdint>

#include "binding.h"
#include "tally/mix64.h"
#include "tally/time.h"

namespace tally {

class RejectLimiter {
 public:
  // Takes a token; false = stay silent.
  bool allow(const Binding& source, TimeNs now) noexcept {
    Bucket& bucket = buckets_[index_of(source)];
    if (now - bucket.since >= kSecond) bucket = {now, 0};
    if (bucket.used >= kPerSecond) return false;
    ++bucket.used;
    return true;
  }

 private:
  struct Bucket {
    TimeNs since = 0;
    std::uint32_t used = 0;
  };
  static constexpr std::uint32_t kPerSecond = 10;
  static constexpr std::size_t kBuckets = 1024;

  static std::size_t index_of(const Binding& source) noexcept {
    std::uint64_t h = source.udp_port | std::uint64_t{raw(source.port)} << 16;
    for (const auto byte : source.address) h = mix64(h * 257 + byte);
    return h % kBuckets;
  }

  std::array<Bucket, kBuckets> buckets_{};
};

}  // namespace tally
