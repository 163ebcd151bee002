#include "hot_workers.h"

#include <utility>

#include "tally/check.h"
#include "tally/mix64.h"

namespace tally::bench {

hot::Key key_of(std::uint32_t k) { return mix64(k + 1); }

HotWorkers::Words sum_of(const std::vector<HotWorkers::Words>& ranks) {
  HotWorkers::Words sum(ranks.front().size());
  for (const HotWorkers::Words& words : ranks)
    for (std::size_t i = 0; i < words.size(); ++i) sum[i] += words[i];
  return sum;
}

HotWorkers::HotWorkers(const HotRunOptions& options) : batches_(options.load, options.seed) {
  for (std::uint32_t rank = 0; rank < options.load.workers; ++rank) {
    auto set = hot::HotSet::create({.seat = {rank, options.load.workers, options.limits},
                                    .every = options.every,
                                    .lead = 1,
                                    .counters = options.counters});
    TALLY_CHECK(set.has_value(), "options are in range");
    sets_.push_back(std::move(*set));
  }
}

void HotWorkers::count_a_round() {
  std::vector<hot::Key> batch;
  for (hot::HotSet& worker : sets_) {
    batch.clear();
    for (const std::uint32_t key : draw()) batch.push_back(key_of(key));
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

void HotWorkers::agree() {
  agreement_ = {};
  for (hot::HotSet& worker : sets_) agreement_.names.push_back(worker.names());
  const Words names = sum_of(agreement_.names);
  for (hot::HotSet& worker : sets_) {
    auto words = worker.take_names(names);
    TALLY_CHECK(words.has_value(), "the names of ranks that agree");
    agreement_.weights.push_back(std::move(*words));
  }
  const Words weights = sum_of(agreement_.weights);
  for (hot::HotSet& worker : sets_)
    TALLY_CHECK(worker.take_weights(weights).has_value(), "the weights of ranks that agree");
}

}  // namespace tally::bench
