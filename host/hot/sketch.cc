#include "hot/sketch.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tally/mix64.h"

namespace tally::hot {
namespace {

constexpr std::size_t buckets_for(std::size_t counters) {
  return std::bit_ceil(std::max<std::size_t>(1, (counters + Sketch::kWays - 1) / Sketch::kWays));
}

}  // namespace

Sketch::Sketch(std::size_t counters, std::uint64_t seed) : buckets_(buckets_for(counters)), seed_(seed) {}

const Sketch::Bucket& Sketch::bucket_of(Key key) const noexcept {
  return buckets_[mix64(key) & (buckets_.size() - 1)];
}

void Sketch::add(std::span<const Key> batch) {
  batches_ += 1;
  for (const Key key : batch) {
    Bucket& bucket = const_cast<Bucket&>(std::as_const(*this).bucket_of(key));
    std::size_t rarest = 0;
    std::size_t at = kWays;
    for (std::size_t i = 0; i < kWays; ++i) {
      if (bucket.keys[i] == key && bucket.counts[i] != 0) at = i;
      if (bucket.counts[i] < bucket.counts[rarest]) rarest = i;
    }
    if (at == kWays) {
      at = rarest;
      bucket.keys[at] = key;
      bucket.errors[at] = bucket.counts[at];
    }
    ++bucket.counts[at];
  }
}

void Sketch::age() {
  ++ages_;
  batches_ /= 2;
  for (Bucket& bucket : buckets_)
    for (std::size_t i = 0; i < kWays; ++i) {
      const auto up = static_cast<std::uint32_t>(mix64(bucket.keys[i] ^ seed_ ^ mix64(ages_)) & 1U);
      // Both in the same direction: what was seen for sure is halved as well as it can be.
      const std::uint32_t least = (bucket.counts[i] - bucket.errors[i] + up) / 2;
      bucket.errors[i] /= 2;
      bucket.counts[i] = bucket.errors[i] + least;
    }
}

void Sketch::clear() {
  std::fill(buckets_.begin(), buckets_.end(), Bucket{});
  batches_ = 0;
}

// A bucket becomes several. Of what was not in it, its smallest count was the bound, and stays that in each of them.
void Sketch::grow(std::size_t counters) {
  if (buckets_for(counters) <= buckets_.size()) return;
  const std::vector<Bucket> before = std::exchange(buckets_, std::vector<Bucket>(buckets_for(counters)));
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    Bucket& bucket = buckets_[b];
    bucket = before[b & (before.size() - 1)];
    const std::uint32_t bound = *std::min_element(bucket.counts.begin(), bucket.counts.end());
    for (std::size_t i = 0; i < kWays; ++i)
      if (&bucket_of(bucket.keys[i]) != &bucket) bucket.counts[i] = bucket.errors[i] = bound;
  }
}

Counted Sketch::find(Key key) const noexcept {
  const Bucket& bucket = bucket_of(key);
  for (std::size_t i = 0; i < kWays; ++i)
    if (bucket.keys[i] == key && bucket.counts[i] != 0) return {key, bucket.counts[i], bucket.errors[i]};
  return {key, 0, 0};
}

std::vector<Counted> Sketch::seen() const {
  std::vector<Counted> out;
  for (const Bucket& bucket : buckets_)
    for (std::size_t i = 0; i < kWays; ++i)
      if (bucket.counts[i] > bucket.errors[i])
        out.push_back({bucket.keys[i], bucket.counts[i], bucket.errors[i]});
  return out;
}

}  // namespace tally::hot
