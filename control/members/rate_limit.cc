#include "rate_limit.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tally/mix64.h"

namespace tally {

bool RateLimit::take(const Ipv6& source, TimeNs now) noexcept {
  std::array<std::uint64_t, 2> words{};
  std::memcpy(words.data(), source.data(), sizeof words);
  const std::uint64_t hash = mix64(mix64(words[0] ^ key_) ^ std::rotl(words[1], 32) ^ key_);
  TimeNs& due = due_[hash % kBuckets];
  const TimeNs start = std::max(due, now);
  if (start - now > burst_) return false;
  due = start + interval_;
  return true;
}

}  // namespace tally
