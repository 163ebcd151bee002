#pragma once
// Workers that draw batches, count them and agree on a hot set as in production (host/hot), one after the other.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "hot/hot_set.h"
#include "zipf.h"

namespace tally::bench {

struct HotRunOptions {
  Workload load;
  hot::Limits limits;
  std::uint32_t every = 32;     // rounds between agreements (HotOptions)
  std::uint32_t sampled = 32;   // rounds before those measured, which are under the last set agreed in them
  std::uint32_t measured = 16;  // rounds
  std::size_t counters = 0;     // 0: as HotOptions
  std::uint64_t seed = 1;
};

// Of what a batch has as k. No two are the same.
[[nodiscard]] hot::Key key_of(std::uint32_t k);

class HotWorkers {
 public:
  using Words = std::vector<std::int32_t>;
  // What each rank gave to the two sums.
  struct Agreement {
    std::vector<Words> names;
    std::vector<Words> weights;
  };

  explicit HotWorkers(const HotRunOptions& options);

  // A batch of the next worker.
  [[nodiscard]] std::vector<std::uint32_t> draw() { return batches_.draw(); }
  // All workers draw and count; an agreement that is due is made and its set adopted.
  void count_a_round();

  [[nodiscard]] const hot::KeySet& set() const { return sets_.front().set(); }
  [[nodiscard]] const Zipf& zipf() const { return batches_.zipf(); }
  [[nodiscard]] const Agreement& agreement() const { return agreement_; }  // the last one
  [[nodiscard]] double counting_ns() const {
    return std::chrono::duration<double, std::nano>(counting_).count() / static_cast<double>(counted_);
  }

 private:
  void agree();

  Batches batches_;
  std::vector<hot::HotSet> sets_;
  std::chrono::steady_clock::duration counting_{};
  std::size_t counted_ = 0;
  Agreement agreement_;
};

// The sum of what all ranks have.
[[nodiscard]] HotWorkers::Words sum_of(const std::vector<HotWorkers::Words>& ranks);

}  // namespace tally::bench
