#include "hot/choice.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "tally/mix64.h"

namespace tally::hot {
namespace {

constexpr int kShareBits = 24;
constexpr int kMissBits = 20;
constexpr double kMostShare = 1.0 - 1.0 / 65'536;
// What rounding makes of a key that one worker alone has: no gain.
constexpr std::int64_t kNoise = 1 << (kShareBits - 16);

// 2^-(2^-i) in 2^-30: each is the root of the one before.
constexpr std::array<std::uint64_t, kMissBits + 1> kRoots = [] {
  std::array<std::uint64_t, kMissBits + 1> roots{};
  roots[0] = std::uint64_t{1} << 29;
  for (std::size_t i = 1; i < roots.size(); ++i) {
    const std::uint64_t square = roots[i - 1] << 30;
    std::uint64_t root = 0;
    for (std::uint64_t bit = std::uint64_t{1} << 30; bit != 0; bit >>= 1)
      if ((root + bit) * (root + bit) <= square) root += bit;
    roots[i] = root;
  }
  return roots;
}();

// 2^-x in 2^-24; x in 2^-20.
std::int64_t power_of_half(std::int32_t x) {
  const int whole = x >> kMissBits;
  if (whole >= 30) return 0;
  std::uint64_t p = std::uint64_t{1} << 30;
  for (int i = 1; i <= kMissBits; ++i)
    if ((x >> (kMissBits - i) & 1) != 0) p = p * kRoots[static_cast<std::size_t>(i)] >> 30;
  return static_cast<std::int64_t>(p >> whole >> (30 - kShareBits));
}

struct Ranked {
  std::int64_t gain = 0;
  Key key = 0;
  std::int64_t shares = 0;
  std::uint32_t id = 0;  // in the current set
  bool is_new = true;
};

bool better(const Ranked& a, const Ranked& b) {
  if (a.gain != b.gain) return a.gain > b.gain;
  if (a.shares != b.shares) return a.shares > b.shares;
  return mix64(a.key) < mix64(b.key);  // a bijection
}

std::size_t size_for(std::span<const Ranked> best_first, std::uint32_t world, const Limits& limits) {
  std::int64_t shares = 0;
  std::size_t size = 0;
  for (std::size_t n = 1; n <= std::min<std::size_t>(best_first.size(), limits.most); ++n) {
    shares += best_first[n - 1].shares;
    const std::int64_t all = static_cast<std::int64_t>(n) * world * kOneShare;
    if (100 * shares >= limits.least_fill * all) size = n;
  }
  return size;
}

// Best first; at most `size` of them.
std::vector<Ranked> selected(const std::vector<Ranked>& best_first, std::size_t size) {
  std::vector<Ranked> in;
  if (size == 0) return in;
  const std::int64_t border = best_first[size - 1].gain;
  std::vector<Ranked> rest;
  for (const Ranked& r : best_first) {
    const bool sure = r.is_new ? 5 * r.gain >= 6 * border : 5 * r.gain >= 4 * border;
    (sure ? in : rest).push_back(r);
  }
  for (const Ranked& r : rest)
    if (in.size() < size) in.push_back(r);
  std::sort(in.begin(), in.end(), better);
  in.resize(std::min(in.size(), size));
  return in;
}

}  // namespace

Weight weight_of(double share) noexcept {
  const double a = std::clamp(share, 0.0, kMostShare);
  return {static_cast<std::int32_t>(std::lround(std::ldexp(a, kShareBits))),
          static_cast<std::int32_t>(std::lround(std::ldexp(-std::log2(1 - a), kMissBits)))};
}

std::int64_t gain_of(const Weight& weight) noexcept {
  const std::int64_t gain = weight.shares - (kOneShare - power_of_half(weight.misses));
  return gain < kNoise ? 0 : gain;
}

KeySet choose(const KeySet& current, std::span<const Candidate> candidates, std::uint32_t world,
              const Limits& limits) {
  std::vector<Ranked> ranked;
  ranked.reserve(candidates.size());
  for (const Candidate& c : candidates) {
    const auto id = current.id_of(c.key);
    const std::int64_t gain = gain_of(c.weight);
    if (gain != 0) ranked.push_back({gain, c.key, c.weight.shares, id.value_or(0), !id});
  }
  std::sort(ranked.begin(), ranked.end(), better);
  const std::vector<Ranked> in = selected(ranked, size_for(ranked, world, limits));
  std::vector<Key> keys(in.size());
  std::vector<bool> taken(in.size());
  for (const Ranked& r : in) {
    if (r.is_new || r.id >= keys.size()) continue;
    keys[r.id] = r.key;
    taken[r.id] = true;
  }
  std::size_t free = 0;
  for (const Ranked& r : in) {
    if (!r.is_new && r.id < keys.size()) continue;
    while (taken[free]) ++free;
    keys[free++] = r.key;
  }
  return {current.number() + 1, std::move(keys)};
}

}  // namespace tally::hot
