#include "hot/agreement.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "tally/mix64.h"

namespace tally::hot {
namespace {

constexpr std::size_t kStampWords = std::tuple_size_v<Stamp>;
constexpr std::uint64_t kClassSalt = 0xc1a55;  // not the buckets' hash

// Of one rank. While there is no set, twice as many keys as there is room; then fewer, for few change.
std::size_t most_names(const Seat& seat, const KeySet& current) {
  const std::size_t most = seat.limits.most;
  const std::size_t size = std::min(current.size(), most);
  return (std::max(2 * most - 3 * size / 2, most / 2) + seat.world - 1) / seat.world;
}
// How many ranks are to name it before this one does, in this agreement: 0 for the keys of its own class.
std::uint32_t turn_of(Key key, const Seat& seat, const KeySet& current) {
  const std::uint64_t first = (mix64(key ^ kClassSalt) + current.number()) % seat.world;
  return static_cast<std::uint32_t>((seat.rank + seat.world - first) % seat.world);
}

void put_stamp(std::vector<std::int32_t>& words, const KeySet& current) {
  const Stamp stamp = stamp_of(current);
  std::copy(stamp.begin(), stamp.end(), words.begin());
}
Result<void> check_words(const Seat& seat, const KeySet& current, std::span<const std::int32_t> sum,
                         std::size_t words) {
  if (sum.size() != words)
    return fail(ErrorCode::kInvalidArgument, "the sum of an agreement about hot keys has " +
                                                 std::to_string(sum.size()) + " words, not " +
                                                 std::to_string(words));
  Stamp stamp{};
  std::copy_n(sum.begin(), kStampWords, stamp.begin());
  return check_stamp(current, stamp, seat.world);
}

std::int32_t low_word(Key key) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(key)); }
std::int32_t high_word(Key key) { return low_word(key >> 32); }
Key key_of(std::int32_t low, std::int32_t high) {
  return static_cast<std::uint32_t>(low) | std::uint64_t{static_cast<std::uint32_t>(high)} << 32;
}

}  // namespace

std::vector<std::int32_t> names(const Seat& seat, const KeySet& current, const Sketch& sketch) {
  const std::size_t most = most_names(seat, current);
  struct Name {
    std::uint32_t turn = 0;
    Counted counted;
  };
  std::vector<Name> mine;
  for (const Counted& c : sketch.seen())
    if (!current.has(c.key)) mine.push_back({turn_of(c.key, seat, current), c});
  const auto better = [](const Name& a, const Name& b) {
    if (a.turn != b.turn) return a.turn < b.turn;
    if (a.counted.least() != b.counted.least()) return a.counted.least() > b.counted.least();
    return mix64(a.counted.key) < mix64(b.counted.key);
  };
  if (mine.size() > most) {
    std::nth_element(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(most), mine.end(), better);
    mine.resize(most);
  }
  std::vector<std::int32_t> words(kStampWords + seat.world * (1 + 2 * most));
  put_stamp(words, current);
  std::size_t at = kStampWords + seat.rank * (1 + 2 * most);
  words[at++] = static_cast<std::int32_t>(mine.size());
  for (const Name& name : mine) {
    words[at++] = low_word(name.counted.key);
    words[at++] = high_word(name.counted.key);
  }
  return words;
}

Result<std::vector<Key>> candidates(const Seat& seat, const KeySet& current,
                                    std::span<const std::int32_t> sum_of_names) {
  const std::size_t most = most_names(seat, current);
  if (auto checked = check_words(seat, current, sum_of_names, kStampWords + seat.world * (1 + 2 * most));
      !checked)
    return tl::unexpected(checked.error());
  std::vector<Key> out(current.keys().begin(), current.keys().end());
  std::unordered_set<Key> named;
  for (std::uint32_t rank = 0; rank < seat.world; ++rank) {
    const auto segment = sum_of_names.subspan(kStampWords + rank * (1 + 2 * most), 1 + 2 * most);
    if (segment[0] < 0 || static_cast<std::size_t>(segment[0]) > most)
      return fail(ErrorCode::kCorrupt, "rank " + std::to_string(rank) + " names " +
                                           std::to_string(segment[0]) + " keys; it may name " +
                                           std::to_string(most));
    for (std::size_t i = 0; i < static_cast<std::size_t>(segment[0]); ++i) {
      const Key key = key_of(segment[1 + 2 * i], segment[2 + 2 * i]);
      if (current.has(key))
        return fail(ErrorCode::kCorrupt, "rank " + std::to_string(rank) + " names key " +
                                             std::to_string(key) + ", which is hot already");
      if (named.insert(key).second) out.push_back(key);
    }
  }
  return out;
}

std::vector<std::int32_t> weights(const KeySet& current, std::span<const Key> candidates,
                                  const Sketch& sketch) {
  std::vector<std::int32_t> words(kStampWords + 2 * candidates.size());
  put_stamp(words, current);
  std::size_t at = kStampWords;
  for (const Key key : candidates) {
    const Weight weight = weight_of(sketch.batches() > 0 ? sketch.find(key).least() / sketch.batches() : 0);
    words[at++] = weight.shares;
    words[at++] = weight.misses;
  }
  return words;
}

Result<KeySet> next_set(const Seat& seat, const KeySet& current, std::span<const Key> candidates,
                        std::span<const std::int32_t> sum_of_weights) {
  if (auto checked = check_words(seat, current, sum_of_weights, kStampWords + 2 * candidates.size());
      !checked)
    return tl::unexpected(checked.error());
  std::vector<Candidate> weighed;
  weighed.reserve(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const Weight weight{sum_of_weights[kStampWords + 2 * i], sum_of_weights[kStampWords + 2 * i + 1]};
    if (weight.shares < 0 || weight.misses < 0)
      return fail(ErrorCode::kCorrupt, "key " + std::to_string(candidates[i]) + " has a negative weight");
    weighed.push_back({candidates[i], weight});
  }
  return choose(current, weighed, seat.world, seat.limits);
}

}  // namespace tally::hot
