#pragma once
// How many batches had a key, of the keys that most had: a space-saving sketch (Metwally, Agrawal, El Abbadi,
// ICDT'05) that is divided into buckets of 16 counters. A key belongs to one bucket; one that has no counter takes
// that of the bucket's rarest key and its count, which is remembered as error. So a count is never too small, and
// at most `error` too large.
//
// The structure of the paper, lists of counters with equal counts, follows some five pointers to places far apart;
// a heap more. Here a key costs at most 16 comparisons in four cache lines, whatever the keys are. One thread.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tally::hot {

using Key = std::uint64_t;

struct Counted {
  Key key = 0;
  std::uint32_t count = 0;  // batches; at most this many
  std::uint32_t error = 0;  // ... and at least count - error
  [[nodiscard]] std::uint32_t least() const noexcept { return count - error; }
};

class Sketch {
 public:
  static constexpr std::size_t kWays = 16;

  // counters: rounded up so that the buckets are a power of two. seed: another one at each rank.
  Sketch(std::size_t counters, std::uint64_t seed);

  // A batch, each key at most once.
  void add(std::span<const Key> batch);
  // What was counted is worth half from now on. Odd counts are rounded up for half of the keys, so that the sum of
  // small ones stays right.
  void age();
  void clear();
  // As many at least; what was counted stays, with its bounds.
  void grow(std::size_t counters);

  // error == count: it has no counter.
  [[nodiscard]] Counted find(Key key) const noexcept;
  // Of the batches so far, how much they are worth: 1 each before they age.
  [[nodiscard]] double batches() const noexcept { return batches_; }
  // Those that were seen for sure, in no order.
  [[nodiscard]] std::vector<Counted> seen() const;
  [[nodiscard]] std::size_t counters() const noexcept { return buckets_.size() * kWays; }

 private:
  // count == 0: free.
  struct alignas(64) Bucket {
    std::array<Key, kWays> keys{};
    std::array<std::uint32_t, kWays> counts{};
    std::array<std::uint32_t, kWays> errors{};
  };
  [[nodiscard]] const Bucket& bucket_of(Key key) const noexcept;

  std::vector<Bucket> buckets_;
  std::uint64_t seed_;
  std::uint64_t ages_ = 0;
  double batches_ = 0;
};

}  // namespace tally::hot
