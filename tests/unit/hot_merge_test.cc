// What a hot set is worth: as reckoned, and as drawn through sketches and agreements.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "hot_run.h"
#include "zipf.h"

namespace tally::bench {
namespace {

struct Row {
  std::uint32_t keys;
  double exponent;
  std::uint32_t lookups;
  std::vector<double> pairs;  // of 4, 8, 16, 32 workers
  std::vector<double> bytes;
  int hot_percent;
};

// docs/hot_keys.md; first reckoned by another program.
TEST(HotMerge, the_acceptance_table_is_reckoned) {
  const std::vector<Row> rows{
      {1'000'000, 0.9, 13'312, {1.17, 1.28, 1.40, 1.52}, {1.50, 1.56, 1.62, 1.68}, 44},
      {1'000'000, 1.05, 13'312, {1.25, 1.41, 1.60, 1.81}, {1.81, 1.92, 2.03, 2.14}, 58},
      {10'000'000, 1.05, 26'624, {1.20, 1.32, 1.44, 1.55}, {1.50, 1.57, 1.62, 1.67}, 43},
      {10'000'000, 1.2, 26'624, {1.31, 1.51, 1.73, 1.97}, {1.95, 2.09, 2.23, 2.36}, 62},
      {1'000'000, 1.2, 13'312, {1.35, 1.58, 1.86, 2.19}, {2.31, 2.53, 2.76, 2.99}, 73}};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < 4; ++i) {
      const Traffic t = expected({row.keys, row.exponent, row.lookups, 4U << i}, 30'000);
      EXPECT_NEAR(t.pairs(), row.pairs[i], 0.006) << row.keys << ' ' << row.exponent << ' ' << i;
      EXPECT_NEAR(t.bytes(), row.bytes[i], 0.006) << row.keys << ' ' << row.exponent << ' ' << i;
      EXPECT_NEAR(100 * t.hot_share(), row.hot_percent, 0.6);
    }
}
// docs/hot_keys.md, by links: what was measured in virtual time is 3.47, 2.50, 1.29 and 0.65.
TEST(HotMerge, with_many_servers_a_large_set_is_slower_than_none_and_a_small_one_is_not) {
  const Workload load{1'000'000, 1.2, 13'312, 32};
  const std::vector<double> gains{3.73, 2.98, 1.49, 0.75};
  for (std::size_t i = 0; i < gains.size(); ++i)
    EXPECT_NEAR(link_gain(load, 30'000, 1U << i, 16), gains[i], 0.01) << (1U << i) << " servers";
  EXPECT_NEAR(link_gain(load, 5'000, 8, 16), 2.03, 0.01);
  EXPECT_NEAR(link_gain(load, 0, 8, 16), 1, 1e-9);
}
TEST(HotMerge, keys_are_drawn_as_often_as_their_share_says) {
  const Zipf zipf(1'000, 1.1);
  std::mt19937_64 random(1);
  constexpr int kDraws = 400'000;
  std::vector<int> drawn(zipf.keys());
  for (int i = 0; i < kDraws; ++i) ++drawn[zipf.draw(random)];
  for (const std::uint32_t key : {0U, 1U, 9U, 99U, 999U}) {
    const double share = zipf.share(key, 1);
    EXPECT_NEAR(drawn[key] / double{kDraws}, share, 4 * std::sqrt(share / kDraws)) << key;
  }
}

// Eight workers, a tenth of the keys of the table and so many of the lookups.
constexpr Workload kEight{.keys = 100'000, .exponent = 1.05, .lookups = 1'331, .workers = 8};

TEST(HotMerge, what_agreed_sets_merge_is_within_2_percent_of_what_is_reckoned) {
  for (const double exponent : {0.6, 0.9, 1.05, 1.2}) {
    Workload load = kEight;
    load.exponent = exponent;
    const HotRun run =
        hot_run({.load = load, .limits = {3'000, 0}, .every = 64, .sampled = 64, .measured = 32});
    const double reckoned = expected(load, 3'000).pairs();
    EXPECT_NEAR(run.traffic.pairs() / reckoned, 1, 0.02) << exponent;
    EXPECT_GE(run.gain_kept, exponent > 0.8 ? 0.97 : 0.9) << exponent;
  }
}
TEST(HotMerge, the_first_agreement_after_32_batches_keeps_nine_tenths_of_the_gain) {
  const HotRun run =
      hot_run({.load = kEight, .limits = {3'000, 0}, .every = 32, .sampled = 4, .measured = 1});
  EXPECT_GE(run.gain_kept, 0.9);
}
TEST(HotMerge, a_set_that_batches_fill_by_half_is_as_large_as_reckoned) {
  const HotRun run = hot_run({.load = kEight, .limits = {3'000, 50}, .sampled = 64, .measured = 1});
  const double reckoned = size_of_fill(kEight, 0.5, 3'000);
  EXPECT_NEAR(static_cast<double>(run.size) / reckoned, 1, 0.1) << run.size << " of " << reckoned;
  EXPECT_GE(run.gain_kept, 0.97);
}
TEST(HotMerge, once_it_is_settled_few_keys_come_and_go) {
  const HotRun run =
      hot_run({.load = kEight, .limits = {3'000, 0}, .every = 64, .sampled = 256, .measured = 1});
  EXPECT_LT(run.newcomers, 300U);
}

}  // namespace
}  // namespace tally::bench
