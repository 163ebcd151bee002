// Counts of a space-saving sketch: never too small, too large by at most what they say.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "hot/sketch.h"
#include "zipf.h"

namespace tally::hot {
namespace {

TEST(HotSketch, with_room_for_all_keys_it_counts) {
  Sketch sketch(1'024, 1);
  sketch.add(std::vector<Key>{3, 5});
  sketch.add(std::vector<Key>{5});
  EXPECT_EQ(sketch.find(5).count, 2U);
  EXPECT_EQ(sketch.find(5).error, 0U);
  EXPECT_EQ(sketch.find(3).least(), 1U);
  EXPECT_EQ(sketch.find(4).count, 0U);
  EXPECT_EQ(sketch.seen().size(), 2U);
  EXPECT_EQ(sketch.batches(), 2.0);
}
TEST(HotSketch, counters_are_whole_buckets_a_power_of_two) {
  EXPECT_EQ(Sketch(0, 1).counters(), 16U);
  EXPECT_EQ(Sketch(17, 1).counters(), 32U);
  EXPECT_EQ(Sketch(100'000, 1).counters(), 131'072U);
}
TEST(HotSketch, the_rarest_of_a_full_bucket_gives_way_and_its_count_is_the_error) {
  Sketch sketch(16, 1);
  for (int i = 0; i < 3; ++i) {
    std::vector<Key> batch(16);
    for (Key key = 0; key < 16; ++key) batch[key] = key;
    if (i == 2) std::erase(batch, 7);
    sketch.add(batch);
  }
  sketch.add(std::vector<Key>{100});
  EXPECT_EQ(sketch.find(7).count, 0U);
  EXPECT_EQ(sketch.find(100).count, 3U);
  EXPECT_EQ(sketch.find(100).least(), 1U);
}

// The bounds of space-saving, key by key, with a sixteenth of the counters that it would take to be exact.
TEST(HotSketch, no_count_is_outside_its_bounds_and_no_frequent_key_is_missing) {
  const bench::Zipf zipf(20'000, 1.05);
  std::mt19937_64 random(7);
  Sketch sketch(1'024, 1);
  std::map<Key, std::uint32_t> truth;
  std::uint64_t added = 0;
  for (int batch = 0; batch < 300; ++batch) {
    std::set<Key> keys;
    for (int i = 0; i < 400; ++i) keys.insert(zipf.draw(random));
    sketch.add(std::vector<Key>(keys.begin(), keys.end()));
    for (const Key key : keys) ++truth[key];
    added += keys.size();
  }
  // Buckets differ in what comes to them; of the fullest one this is a safe bound.
  const std::uint64_t frequent = 4 * added / sketch.counters();
  std::size_t frequent_keys = 0;
  for (const auto& [key, count] : truth) {
    const Counted found = sketch.find(key);
    if (count > frequent) {
      ++frequent_keys;
      EXPECT_NE(found.count, 0U) << key;
    }
    if (found.count == 0) continue;
    EXPECT_GE(found.count, count) << key;
    EXPECT_LE(found.least(), count) << key;
  }
  EXPECT_GT(frequent_keys, 10U);
}

TEST(HotSketch, it_grows_and_what_was_counted_keeps_its_bounds) {
  const bench::Zipf zipf(20'000, 1.05);
  std::mt19937_64 random(8);
  Sketch sketch(64, 1);
  std::map<Key, std::uint32_t> truth;
  for (int batch = 0; batch < 200; ++batch) {
    std::set<Key> keys;
    for (int i = 0; i < 200; ++i) keys.insert(zipf.draw(random));
    if (batch == 60) {
      const auto seen = sketch.seen();
      sketch.grow(60);
      EXPECT_EQ(sketch.counters(), 64U);
      sketch.grow(4'000);
      EXPECT_EQ(sketch.counters(), 4'096U);
      EXPECT_EQ(sketch.seen().size(), seen.size());
      for (const Counted& one : seen) EXPECT_EQ(sketch.find(one.key).count, one.count);
    }
    sketch.add(std::vector<Key>(keys.begin(), keys.end()));
    for (const Key key : keys) ++truth[key];
  }
  for (const auto& [key, count] : truth) {
    const Counted found = sketch.find(key);
    if (found.count == 0) continue;
    EXPECT_GE(found.count, count) << key;
    EXPECT_LE(found.least(), count) << key;
  }
  EXPECT_GT(sketch.seen().size(), 1'000U);
}

TEST(HotSketch, what_ages_is_worth_half_and_small_counts_keep_their_sum) {
  Sketch sketch(65'536, 1);
  std::vector<Key> once(10'000);
  for (Key key = 0; key < once.size(); ++key) once[key] = key;
  sketch.add(once);
  sketch.add(std::vector<Key>{50'000});
  sketch.add(std::vector<Key>{50'000});
  sketch.age();
  EXPECT_EQ(sketch.batches(), 1.5);
  EXPECT_EQ(sketch.find(50'000).least(), 1U);
  const std::size_t kept = sketch.seen().size() - 1;
  EXPECT_GT(kept, 4'700U);
  EXPECT_LT(kept, 5'300U);
  Sketch other(65'536, 2);
  other.add(once);
  other.age();
  std::size_t in_both = 0;
  for (const Key key : once) in_both += sketch.find(key).count != 0 && other.find(key).count != 0 ? 1 : 0;
  EXPECT_LT(in_both, 3'000U) << "ranks do not all forget the same keys";
}

}  // namespace
}  // namespace tally::hot
