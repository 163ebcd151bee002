// The rows of tally-kv against a map.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "kv/rows.h"

namespace tally::kv {
namespace {

TEST(KvRows, AreAsAMapHasThem) {
  std::mt19937_64 random(3);
  for (const Rule rule : {Rule::kSum, Rule::kSgd}) {
    Rows rows({.rule = rule, .rate = 0.5F, .dimension = 2});
    std::map<Key, std::vector<float>> model;
    for (int round = 0; round < 5000; ++round) {
      std::vector<Key> keys(1 + random() % 8);
      for (Key& key : keys) key = (random() % 4000) << 40;
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      std::vector<float> vals;
      std::vector<int> lens;
      for (const Key key : keys) {
        auto& row = model[key];
        if (row.empty()) row.resize(1 + random() % 40);
        lens.push_back(static_cast<int>(row.size()));
        for (float& value : row) {
          vals.push_back(static_cast<float>(random() % 64));
          value += rule == Rule::kSum ? vals.back() : -0.5F * vals.back();
        }
      }
      rows.push(keys, lens, 0, vals.data(), 0);
    }
    EXPECT_EQ(rows.size(), model.size());
    for (const auto& [key, row] : model) {
      std::vector<float> got;
      std::vector<int> lens;
      rows.pull(std::vector<Key>{key}, got, lens);
      ASSERT_EQ(got, row);
    }
    std::vector<float> got;
    std::vector<int> lens;
    rows.pull(std::vector<Key>{1}, got, lens);  // nobody pushed it
    EXPECT_EQ(got, (std::vector<float>{0, 0}));
  }
}

TEST(KvRows, AWrongLengthChangesNothingAndIsSaidWithItsIndex) {
  Rows rows({});
  rows.push(std::vector<Key>{1, 2}, {}, 2, std::vector<float>{1, 2, 3, 4}.data(), 0);
  try {
    rows.push(std::vector<Key>{1, 2}, std::vector<int>{2, 1}, 0, std::vector<float>{1, 1, 1}.data(), 10);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.index(), 11);
    EXPECT_STREQ(failure.what(), "the row of key 2 has 2 values, and 1 are pushed");
  }
  std::vector<float> got;
  std::vector<int> lens;
  rows.pull(std::vector<Key>{1, 2}, got, lens);
  EXPECT_EQ(got, (std::vector<float>{1, 2, 3, 4}));
}

TEST(KvRows, MemoryIsBounded) {
  Rows rows({.most_bytes = 1 << 20});
  const std::vector<float> vals(1000, 1.F);
  Key key = 0;
  try {
    for (; key < 10'000; ++key) rows.push(std::vector<Key>{key}, {}, vals.size(), vals.data(), 0);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), ErrorCode::kRefused);
  }
  EXPECT_GT(key, 100U);
  EXPECT_LE(rows.bytes(), std::size_t{1} << 20);
  rows.push(std::vector<Key>{0}, {}, vals.size(), vals.data(), 0);  // what is there goes on
}
// The table of places doubles, pages come whole, and a long row has memory of its own.
TEST(KvRows, NoneOfItExceedsTheBoundByAStep) {
  for (const std::size_t length : {0U, 1U, 7U, 9000U, 16'384U, 16'385U, 100'000U}) {
    constexpr std::size_t kBound = 3'000'000;
    Rows rows({.most_bytes = kBound});
    const std::vector<float> vals(100 * length);
    std::size_t refused = 0;
    for (Key key = 0; key < 200'000 && refused < 10; key += 100) {
      std::vector<Key> keys(length > 1000 ? 1 : 100);
      std::iota(keys.begin(), keys.end(), key);
      try {
        rows.push(keys, {}, length, vals.data(), 0);
      } catch (const Failure&) {
        ++refused;
      }
      ASSERT_LE(rows.bytes(), kBound) << "rows of " << length;
    }
    EXPECT_EQ(refused, 10U) << "rows of " << length;
    EXPECT_GT(rows.bytes(), kBound / 3);
  }
}

}  // namespace
}  // namespace tally::kv
