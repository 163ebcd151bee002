#pragma once
// Keys of a sparse model as Zipf's law has them, and what a hot set of the most frequent ones is worth: the
// acceptance table of docs/hot_keys.md, reckoned.

#include <cstdint>
#include <random>
#include <vector>

namespace tally::bench {

// n keys; the k-th most frequent one, from 1, is drawn with a probability as k^-exponent.
class Zipf {
 public:
  Zipf(std::uint32_t keys, double exponent);

  [[nodiscard]] std::uint32_t keys() const noexcept { return static_cast<std::uint32_t>(below_.size()); }
  // 0: the most frequent one.
  [[nodiscard]] std::uint32_t draw(std::mt19937_64& random) const;
  // That a batch of so many draws has the key.
  [[nodiscard]] double share(std::uint32_t key, std::uint32_t lookups) const;

 private:
  std::vector<double> below_;         // probability of keys before this one
  std::vector<std::uint32_t> guide_;  // where to begin to look
};

struct Workload {
  std::uint32_t keys = 0;
  double exponent = 0;
  std::uint32_t lookups = 0;  // a batch; pushed are the keys in it, each once
  std::uint32_t workers = 0;
};

// Of one round, in pairs of key and value; expected, or as they were counted.
struct Traffic {
  double pushed = 0;  // by all workers
  double cold = 0;    // of these, of keys that are not hot
  double merged = 0;  // hot keys that some worker had: what is left of the hot ones

  [[nodiscard]] double pairs() const { return pushed / (cold + merged); }
  // A cold pair has 12 bytes, a hot one, without its key, 4.2.
  [[nodiscard]] double bytes() const { return 12 * pushed / (12 * cold + 4.2 * merged); }
  [[nodiscard]] double hot_share() const { return 1 - cold / pushed; }
};

// Batches of one worker after the other, drawn.
class Batches {
 public:
  // Of `load` the keys, the exponent and the lookups.
  Batches(const Workload& load, std::uint64_t seed);
  // Its keys, 0 the most frequent one, each once.
  [[nodiscard]] std::vector<std::uint32_t> draw();
  [[nodiscard]] const Zipf& zipf() const noexcept { return zipf_; }

 private:
  Zipf zipf_;
  std::uint32_t lookups_;
  std::mt19937_64 random_;
  std::vector<std::uint32_t> drawn_;  // the last batch with the key
  std::uint32_t batches_ = 0;
};

// What may be expected if the `hot` most frequent keys are hot.
[[nodiscard]] Traffic expected(const Workload& load, std::uint32_t hot);
// Rounds with them over those with none, where links that are all alike are what everybody waits for: `width` floats in a
// row, pushes and sums without headers and the words of a round.
[[nodiscard]] double link_gain(const Workload& load, std::uint32_t hot, std::uint32_t servers,
                               std::uint32_t width);
// The largest such set of which a batch has this share on average, at most `most` keys.
[[nodiscard]] std::uint32_t size_of_fill(const Workload& load, double fill, std::uint32_t most);

}  // namespace tally::bench
