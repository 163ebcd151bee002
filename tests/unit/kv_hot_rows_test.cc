// The hot rows of a table at two workers, which sum by hand: what they read, and what they have when they leave.

#include "kv/hot_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "kv/sameness.h"
#include "tally/mix64.h"

namespace tally::kv {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Rows of one value, two of them hot at most; agreements after rounds 1, 3, 7, 15.
class KvHotRows : public testing::Test {
 protected:
  KvHotRows() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) workers_.push_back(made(rank, 0));
  }
  static HotRows made(std::uint32_t rank, int number, std::size_t most_hot = 2) {
    return *HotRows::create({.width = 1, .most_hot = most_hot, .every = 16, .number = number}, rank, 2);
  }
  // Each pushes `value` for each key. What was cold is added up here.
  std::vector<std::shared_ptr<HotSums>> summed(const std::vector<Key>& keys, float value) {
    std::vector<std::shared_ptr<HotSums>> sums;
    for (HotRows& worker : workers_) {
      KeyedRows cold;
      sums.push_back(worker.begin(keys, std::vector<float>(keys.size(), value), cold));
      for (std::size_t i = 0; i < cold.keys.size(); ++i) cold_[cold.keys[i]] += cold.rows[i];
    }
    const std::vector<std::int32_t> zero = sums[0]->words;
    std::map<std::uint32_t, float> rows;
    for (std::size_t i = 0; i < zero.size(); ++i) sums[0]->words[i] += sums[1]->words[i];
    sums[1]->words = sums[0]->words;
    for (const auto& one : sums) {
      for (std::size_t i = 0; i < one->ids.size(); ++i) rows[one->ids[i]] += one->values[i];
    }
    for (const auto& one : sums) {
      for (const auto& [id, row] : rows) {
        one->sums.ids.push_back(id);
        one->sums.values.push_back(row);
      }
    }
    return sums;
  }
  void end(const std::vector<Key>& keys, float value = 1) {
    const auto sums = summed(keys, value);
    for (std::size_t rank = 0; rank < 2; ++rank) ASSERT_TRUE(workers_[rank].end(*sums[rank]));
  }
  // Both begin the next round. Of worker 0, what changes; worker 1 has finished with it.
  std::optional<HotRows::Change> begin_next() {
    auto changes = workers_[1].begin_next();
    EXPECT_TRUE(changes);
    if (*changes) workers_[1].take(came(**changes));
    return *workers_[0].begin_next();
  }
  KeyedRows came(const HotRows::Change& change) {
    KeyedRows rows{change.came, {}};
    for (const Key key : rows.keys) rows.rows.push_back(cold_[key]);
    return rows;
  }
  void round(const std::vector<Key>& keys) {
    end(keys);
    if (const auto change = begin_next()) workers_[0].take(came(*change));
  }
  std::vector<HotRows> workers_;
  std::unordered_map<Key, float> cold_;
};

TEST_F(KvHotRows, RowsComeWithWhatTheServerHadAndAreAddedTo) {
  for (int i = 0; i < 3; ++i) round({1, 2});
  for (const HotRows& worker : workers_) {
    ASSERT_NE(worker.find(1), nullptr);
    EXPECT_EQ(*worker.find(1), 6);
    EXPECT_EQ(worker.find(7), nullptr);
  }
  round({1});
  EXPECT_EQ(*workers_[0].find(1), 8);
  EXPECT_EQ(*workers_[1].find(2), 6);
  EXPECT_EQ(cold_[1], 6) << "hot, it is nothing to the servers";
}
// The largest one counts, whichever comes first: with too few counters the rare keys of each push take those of all others.
TEST_F(KvHotRows, APushWithoutKeysInFrontDoesNotHideTheKeysThatAllHave) {
  for (std::uint32_t rank = 0; rank < 2; ++rank) workers_[rank] = made(rank, 0, 200);
  round({});
  for (std::uint64_t i = 0; i < 6; ++i) {
    std::vector<Key> keys{kMaxKey - 1, kMaxKey};
    for (std::uint64_t each = 0; each < 60'000; ++each) keys.push_back(mix64(60'000 * i + each) >> 1);
    std::sort(keys.begin(), keys.end());
    round(keys);
  }
  for (const HotRows& worker : workers_) {
    EXPECT_NE(worker.find(kMaxKey - 1), nullptr);
    EXPECT_NE(worker.find(kMaxKey), nullptr);
  }
}
TEST_F(KvHotRows, ARowThatLeavesIsBroughtBackByOneWorker) {
  for (int i = 0; i < 3; ++i) round({1, 2});
  for (int i = 0; i < 30; ++i) {
    end({2, 3});
    auto other = workers_[1].begin_next();
    auto mine = workers_[0].begin_next();
    ASSERT_TRUE(mine && other);
    if (!*mine) continue;
    std::vector<Key> both = (*mine)->left.keys;
    both.insert(both.end(), (*other)->left.keys.begin(), (*other)->left.keys.end());
    workers_[0].take(came(**mine));
    workers_[1].take(came(**other));
    if (both.empty()) continue;
    EXPECT_THAT(both, ElementsAre(1));
    EXPECT_THAT((*mine)->came, ElementsAre(3));
    return;
  }
  FAIL() << "key 1 stays hot";
}
TEST_F(KvHotRows, WhoLeavesBeforeTheSumsHasTheRowsOfTheRoundBefore) {
  for (int i = 0; i < 3; ++i) round({1, 2});
  (void)summed({1, 2}, 100);
  const auto leftover = workers_[0].leftover();
  EXPECT_THAT(leftover.rows.keys, ElementsAre(1, 2));
  EXPECT_THAT(leftover.rows.rows, ElementsAre(6, 6));
  EXPECT_EQ(leftover.set, 1U);
}
TEST_F(KvHotRows, WhoLeavesInAChangeHasTheRowsOfTheSetBefore) {
  for (int i = 0; i < 3; ++i) round({1, 2});
  for (int i = 0; i < 40; ++i) {
    end({2, 3});
    const auto change = begin_next();
    if (change && !change->came.empty()) {
      const auto leftover = workers_[0].leftover();
      EXPECT_THAT(leftover.rows.keys, ElementsAre(1, 2));
      EXPECT_EQ(leftover.set + 1, workers_[0].set().number());
      EXPECT_EQ(leftover.rows.rows.front(), 6);
      return;
    }
    if (change) workers_[0].take(came(*change));
  }
  FAIL() << "nothing changed";
}
TEST_F(KvHotRows, RowsThatHaveLeftAreKeptUntilTheNextRoundHasEnded) {
  for (int i = 0; i < 3; ++i) round({1, 2});
  for (int i = 0; i < 40; ++i) {
    end({2, 3});
    const auto change = begin_next();
    if (!change) continue;
    workers_[0].take(came(*change));
    if (change->came.empty()) continue;
    auto leftover = workers_[0].leftover();
    EXPECT_THAT(leftover.rows.keys, ElementsAre(1, 2, 3));
    EXPECT_EQ(leftover.rows.rows.front(), 6) << "its server may not have it yet";
    EXPECT_EQ(leftover.set, workers_[0].set().number());
    end({2, 3});
    leftover = workers_[0].leftover();
    EXPECT_THAT(leftover.rows.keys, ElementsAre(2, 3));
    return;
  }
  FAIL() << "nothing changed";
}
TEST_F(KvHotRows, WhenAllCloseEachBringsItsPart) {
  for (int i = 0; i < 3; ++i) round({1, 2});
  std::map<Key, float> brought;
  for (const HotRows& worker : workers_) {
    const KeyedRows part = worker.part();
    for (std::size_t i = 0; i < part.keys.size(); ++i) {
      EXPECT_FALSE(brought.contains(part.keys[i]));
      brought[part.keys[i]] = part.rows[i];
    }
  }
  EXPECT_THAT(brought, ElementsAre(std::pair<const Key, float>{1, 6}, std::pair<const Key, float>{2, 6}));
}
TEST_F(KvHotRows, AnotherRoundOrTableIsAnErrorAndChangesNothing) {
  for (int i = 0; i < 3; ++i) round({1, 2});
  const auto right = summed({1}, 1);
  HotRows stranger = made(1, 5);
  KeyedRows cold;
  const auto other = stranger.begin({}, {}, cold);
  HotSums mixed = *right[0];
  for (std::size_t i = 0; i < kQuestionWords; ++i) mixed.words[i] = mixed.words[i] / 2 + other->words[i];
  const auto ended = workers_[0].end(mixed);
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().text(), HasSubstr("not all in round 3 of table 0"));
  EXPECT_EQ(*workers_[0].find(1), 6);
}

}  // namespace
}  // namespace tally::kv
