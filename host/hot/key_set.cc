#include "hot/key_set.h"

#include <bit>
#include <string>
#include <utility>

#include "tally/ids.h"
#include "tally/mix64.h"

namespace tally::hot {
namespace {

constexpr std::int64_t kNumbers = 4096;  // a stamp has the number modulo this: 64 squares of it are an int32
constexpr std::uint32_t kDigestMask = (1U << 24) - 1;
static_assert(kMaxRanks * (kNumbers - 1) * (kNumbers - 1) <= INT32_MAX);
static_assert(std::int64_t{kMaxRanks} * kDigestMask <= INT32_MAX);

std::string text(std::int64_t n) { return std::to_string(n); }

}  // namespace

KeySet::KeySet(std::uint32_t number, std::vector<Key> keys)
    : number_(number), keys_(std::move(keys)), places_(std::bit_ceil(2 * keys_.size() + 1)) {
  std::uint64_t digest = number;
  for (std::uint32_t id = 0; id < keys_.size(); ++id) {
    digest = mix64(digest ^ keys_[id]) + 1;
    std::size_t at = mix64(keys_[id]) & (places_.size() - 1);
    while (places_[at] != 0) at = (at + 1) & (places_.size() - 1);
    places_[at] = id + 1;
  }
  digest_ = static_cast<std::uint32_t>(mix64(digest)) & kDigestMask;
}

std::optional<std::uint32_t> KeySet::id_of(Key key) const noexcept {
  if (keys_.empty()) return std::nullopt;
  for (std::size_t at = mix64(key) & (places_.size() - 1); places_[at] != 0;
       at = (at + 1) & (places_.size() - 1))
    if (keys_[places_[at] - 1] == key) return places_[at] - 1;
  return std::nullopt;
}

Stamp stamp_of(const KeySet& set) noexcept {
  const auto n = static_cast<std::int32_t>(set.number() % kNumbers);
  return {n, n * n, static_cast<std::int32_t>(set.digest())};
}

Result<void> check_stamp(const KeySet& own, const Stamp& sum, std::uint32_t world) {
  const Stamp mine = stamp_of(own);
  const std::int64_t a = mine[0];
  const std::int64_t w = world;
  // m ranks with the number a + d, the others with a: these are m d and m d^2.
  const std::int64_t first = sum[0] - w * a;
  const std::int64_t second = sum[1] - w * a * a - 2 * a * first;
  const std::string sets =
      "sums of one round rest on different hot sets: this rank uses set " + text(own.number());
  const std::string advice = "; a rank skipped an agreement, or began one twice";
  if (first != 0 && second % first == 0 && first % (second / first) == 0) {
    const std::int64_t d = second / first;
    const std::int64_t other = own.number() + (d + kNumbers + kNumbers / 2) % kNumbers - kNumbers / 2;
    return fail(ErrorCode::kInvalidArgument,
                sets + ", " + text(first / d) + " of " + text(w) + " ranks use set " + text(other) + advice);
  }
  if (first != 0 || second != 0)
    return fail(ErrorCode::kInvalidArgument, sets + ", others several other sets" + advice);
  if (sum[2] != w * mine[2])
    return fail(ErrorCode::kCorrupt,
                "hot set " + text(own.number()) +
                    " has other keys, or another order, at other ranks: please report it");
  return {};
}

}  // namespace tally::hot
