#include "hot_run.h"

#include <chrono>
#include <cmath>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "hot/hot_set.h"
#include "tally/check.h"
#include "tally/mix64.h"

namespace tally::bench {
namespace {

using Words = std::vector<std::int32_t>;

hot::Key key_of(std::uint32_t rank) { return mix64(rank + 1); }  // no two are the same

class Workers {
 public:
  explicit Workers(const HotRunOptions& options)
      : options_(options),
        zipf_(options.load.keys, options.load.exponent),
        random_(options.seed),
        drawn_(options.load.keys) {
    for (std::uint32_t rank = 0; rank < options.load.workers; ++rank) {
      auto set = hot::HotSet::create({.seat = {rank, options.load.workers, options.limits},
                                      .every = options.every,
                                      .lead = 1,
                                      .counters = options.counters});
      TALLY_CHECK(set.has_value(), "options are in range");
      sets_.push_back(std::move(*set));
    }
  }

  void count_a_round() {
    for (hot::HotSet& worker : sets_) {
      const std::vector<hot::Key> batch = draw();
      const auto begin = std::chrono::steady_clock::now();
      worker.count(batch);
      counting_ += std::chrono::steady_clock::now() - begin;
      counted_ += batch.size();
    }
    if (sets_.front().agreement_is_due()) agree();
    for (hot::HotSet& worker : sets_) {
      worker.end_round();
      TALLY_CHECK(worker.begin_round().has_value(), "everybody knows the set");
      worker.rows_are_here();
    }
  }

  // Under the set as it is; adds to it.
  void measure_a_round(Traffic& traffic) {
    std::vector<bool> had(set().size());
    for (std::size_t worker = 0; worker < sets_.size(); ++worker)
      for (const hot::Key key : draw()) {
        const auto id = set().id_of(key);
        traffic.pushed += 1;
        traffic.cold += id ? 0 : 1;
        if (!id || had[*id]) continue;
        had[*id] = true;
        traffic.merged += 1;
      }
  }

  [[nodiscard]] const hot::KeySet& set() const { return sets_.front().set(); }
  [[nodiscard]] const Zipf& zipf() const { return zipf_; }
  [[nodiscard]] double agreement_bytes() const { return agreement_bytes_; }
  [[nodiscard]] double counting_ns() const {
    return std::chrono::duration<double, std::nano>(counting_).count() / static_cast<double>(counted_);
  }

 private:
  std::vector<hot::Key> draw() {
    ++batches_;
    std::vector<hot::Key> batch;
    for (std::uint32_t i = 0; i < options_.load.lookups; ++i) {
      const std::uint32_t key = zipf_.draw(random_);
      if (std::exchange(drawn_[key], batches_) != batches_) batch.push_back(key_of(key));
    }
    return batch;
  }

  static void add(Words& sum, const Words& words) {
    sum.resize(words.size());
    for (std::size_t i = 0; i < words.size(); ++i) sum[i] += words[i];
  }
  void agree() {
    Words names;
    for (hot::HotSet& worker : sets_) add(names, worker.names());
    Words weights;
    for (hot::HotSet& worker : sets_) {
      const auto words = worker.take_names(names);
      TALLY_CHECK(words.has_value(), "the names of ranks that agree");
      add(weights, *words);
    }
    for (hot::HotSet& worker : sets_)
      TALLY_CHECK(worker.take_weights(weights).has_value(), "the weights of ranks that agree");
    agreement_bytes_ = 4.0 * static_cast<double>(names.size() + weights.size());
  }

  HotRunOptions options_;
  Zipf zipf_;
  std::mt19937_64 random_;
  std::vector<std::uint32_t> drawn_;  // the last batch with the key
  std::uint32_t batches_ = 0;
  std::vector<hot::HotSet> sets_;
  std::chrono::steady_clock::duration counting_{};
  std::size_t counted_ = 0;
  double agreement_bytes_ = 0;
};

double gain(double share, std::uint32_t workers) {
  return workers * share + std::expm1(workers * std::log1p(-std::min(share, 1 - 1e-15)));
}

double gain_kept(const HotRunOptions& options, const Workers& workers) {
  const std::uint32_t oracle =
      size_of_fill(options.load, options.limits.least_fill / 100.0, options.limits.most);
  double kept = 0;
  double best = 0;
  for (std::uint32_t k = 0; k < options.load.keys; ++k) {
    const double g = gain(workers.zipf().share(k, options.load.lookups), options.load.workers);
    if (k < oracle) best += g;
    if (workers.set().has(key_of(k))) kept += g;
  }
  return best > 0 ? kept / best : 1;
}

}  // namespace

HotRun hot_run(const HotRunOptions& options) {
  Workers workers(options);
  hot::KeySet before;
  for (std::uint32_t i = 0; i < options.sampled; ++i) {
    const hot::KeySet now = workers.set();
    workers.count_a_round();
    if (workers.set().number() != now.number()) before = now;
  }
  HotRun run{.size = workers.set().size()};
  for (const hot::Key key : workers.set().keys()) run.newcomers += before.has(key) ? 0 : 1;
  for (std::uint32_t i = 0; i < options.measured; ++i) workers.measure_a_round(run.traffic);
  run.gain_kept = gain_kept(options, workers);
  run.agreement_bytes = workers.agreement_bytes();
  run.counting_ns = workers.counting_ns();
  return run;
}

}  // namespace tally::bench
