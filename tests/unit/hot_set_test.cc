// Which set a rank uses in which round, by the rules of tests/models/hot_model.h.

#include "hot/hot_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tally::hot {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;
using Words = std::vector<std::int32_t>;

// Two ranks; agreements after rounds 1, 3, 7, 15, 31.
class HotRounds : public testing::Test {
 protected:
  HotRounds() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) ranks_.push_back(made(rank));
  }
  static HotSet made(std::uint32_t rank) {
    return *HotSet::create(
        {.seat = {rank, 2, {.most = 2, .least_fill = 0}}, .every = 16, .lead = 2, .counters = 64});
  }
  static Words sum(const Words& a, const Words& b) {
    Words out(a.size());
    for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] + b.at(i);
    return out;
  }
  void count(const std::vector<Key>& batch) {
    for (HotSet& rank : ranks_) rank.count(batch);
  }
  void agree() {
    const Words first = sum(ranks_[0].names(), ranks_[1].names());
    const Words second = sum(*ranks_[0].take_names(first), *ranks_[1].take_names(first));
    for (HotSet& rank : ranks_) ASSERT_TRUE(rank.take_weights(second));
  }
  // Both ranks; of what changed, rank 0's word.
  std::optional<Change> next_round() {
    std::optional<Change> change;
    for (std::size_t i = ranks_.size(); i-- != 0;) {
      ranks_[i].end_round();
      auto begun = ranks_[i].begin_round();
      EXPECT_TRUE(begun) << begun.error().text();
      change = *begun;
    }
    return change;
  }
  // Rounds 0 to 3: set 1, with keys 1 and 2, comes in round 3.
  std::optional<Change> first_set() {
    count({1, 2});
    next_round();
    agree();
    EXPECT_FALSE(next_round());
    return next_round();
  }

  std::vector<HotSet> ranks_;
};

TEST_F(HotRounds, the_set_comes_lead_rounds_after_its_agreement_and_is_the_same_at_all_ranks) {
  HotSet& rank = ranks_[0];
  count({1, 2});
  EXPECT_FALSE(rank.agreement_is_due());
  next_round();
  EXPECT_TRUE(rank.agreement_is_due());
  agree();
  EXPECT_EQ(rank.phase(), Phase::kProposed);
  EXPECT_FALSE(rank.agreement_is_due());
  EXPECT_FALSE(next_round());
  EXPECT_EQ(rank.set().number(), 0U) << "a key in transition is cold";
  const auto change = next_round();
  ASSERT_TRUE(change);
  EXPECT_EQ(rank.round(), 3U);
  EXPECT_THAT(change->came, UnorderedElementsAre(1, 2));
  EXPECT_EQ(rank.set().number(), 1U);
  EXPECT_EQ(rank.set().digest(), ranks_[1].set().digest());
}
TEST_F(HotRounds, nobody_contributes_before_it_has_the_rows) {
  ASSERT_TRUE(first_set());
  EXPECT_EQ(ranks_[0].phase(), Phase::kAdopted);
  EXPECT_FALSE(ranks_[0].may_contribute());
  ranks_[0].rows_are_here();
  EXPECT_TRUE(ranks_[0].may_contribute());
  EXPECT_EQ(ranks_[0].phase(), Phase::kStable);
  EXPECT_FALSE(ranks_[1].may_contribute()) << "each for itself";
}
TEST_F(HotRounds, nobody_begins_a_round_whose_set_it_does_not_know) {
  next_round();
  const Words first = sum(ranks_[0].names(), ranks_[1].names());
  next_round();
  ranks_[0].end_round();
  EXPECT_FALSE(ranks_[0].may_begin());
  const auto early = ranks_[0].begin_round();
  ASSERT_FALSE(early);
  EXPECT_THAT(early.error().what,
              HasSubstr("round 3 of hot keys cannot begin: its set is still being agreed about"));
  const Words second = sum(*ranks_[0].take_names(first), *ranks_[1].take_names(first));
  EXPECT_FALSE(ranks_[0].may_begin()) << "the names alone";
  ASSERT_TRUE(ranks_[0].take_weights(second));
  EXPECT_TRUE(ranks_[0].may_begin());
}
TEST_F(HotRounds, nobody_leaves_out_an_agreement_or_the_end_of_a_round) {
  const auto not_ended = ranks_[0].begin_round();
  ASSERT_FALSE(not_ended);
  EXPECT_THAT(not_ended.error().what, HasSubstr("has not ended"));
  next_round();
  ranks_[0].end_round();
  const auto left_out = ranks_[0].begin_round();
  ASSERT_FALSE(left_out);
  EXPECT_THAT(left_out.error().what, HasSubstr("was not begun"));
}
TEST_F(HotRounds, a_change_says_what_came_and_what_left) {
  first_set();
  for (HotSet& rank : ranks_) rank.rows_are_here();
  for (int i = 0; i < 8; ++i) count({2, 3});
  agree();
  EXPECT_FALSE(next_round());
  const auto change = next_round();
  ASSERT_TRUE(change);
  EXPECT_THAT(change->came, ElementsAre(3));
  EXPECT_THAT(change->left, ElementsAre(1));
  EXPECT_TRUE(change->moved.empty());
  EXPECT_EQ(ranks_[0].set().number(), 2U);
}
TEST_F(HotRounds, a_set_outlives_its_rounds_for_who_still_uses_it) {
  first_set();
  const auto set = ranks_[0].shared_set();
  ranks_[0].begin_generation(0);
  EXPECT_EQ(set->size(), 2U);
  EXPECT_EQ(ranks_[0].set().size(), 0U);
}

TEST_F(HotRounds, after_a_restart_rows_that_are_here_are_brought_back) {
  first_set();
  ranks_[0].rows_are_here();
  ranks_[0].end_round();
  const Leftover left = ranks_[0].leftover();
  EXPECT_EQ(left.rounds, 4U);
  EXPECT_THAT(left.bring, UnorderedElementsAre(1, 2));
  EXPECT_EQ(left.set, 1U);
}
TEST_F(HotRounds, after_a_restart_rows_that_were_not_here_yet_are_released) {
  first_set();
  const Leftover left = ranks_[0].leftover();
  EXPECT_EQ(left.rounds, 3U);
  EXPECT_TRUE(left.bring.empty());
  EXPECT_EQ(left.set, 0U) << "set 1 gave rows away that this rank never had";
}
TEST_F(HotRounds, while_a_set_comes_the_rows_of_the_one_before_are_brought_back) {
  first_set();
  for (HotSet& rank : ranks_) rank.rows_are_here();
  for (int i = 0; i < 8; ++i) count({2, 3});
  agree();
  next_round();
  next_round();
  const Leftover left = ranks_[0].leftover();
  EXPECT_THAT(left.bring, UnorderedElementsAre(1, 2));
  EXPECT_EQ(left.set, 1U);
}
// In the midst of an agreement whose sums are lost; rank 1 is another process.
TEST_F(HotRounds, a_rank_that_restarts_and_one_that_does_not_agree_again) {
  first_set();
  for (HotSet& rank : ranks_) rank.rows_are_here();
  count({2, 3});
  (void)ranks_[0].names();
  ranks_[1] = made(1);
  for (HotSet& rank : ranks_) rank.begin_generation(3);
  EXPECT_EQ(ranks_[0].set().number(), 0U);
  count({2, 3});
  EXPECT_FALSE(ranks_[0].agreement_is_due()) << "rounds of this generation count";
  next_round();
  agree();
  next_round();
  const auto change = next_round();
  ASSERT_TRUE(change);
  EXPECT_EQ(ranks_[0].round(), 6U);
  EXPECT_THAT(change->came, UnorderedElementsAre(2, 3));
  EXPECT_EQ(ranks_[0].set().digest(), ranks_[1].set().digest());
}

TEST(HotSet, options_out_of_range_are_refused) {
  const auto refused = [](const HotOptions& options) {
    const auto made = HotSet::create(options);
    return made ? "" : made.error().what;
  };
  EXPECT_THAT(refused({.seat = {0, 65, {}}}), HasSubstr("rank 0 of 65 workers"));
  EXPECT_THAT(refused({.seat = {2, 2, {}}}), HasSubstr("rank 2 of 2"));
  EXPECT_THAT(refused({.seat = {0, 0, {}}}), HasSubstr("of 0 workers"));
  EXPECT_THAT(refused({.seat = {0, 2, {}}, .every = 15}), HasSubstr("15 rounds"));
  EXPECT_THAT(refused({.seat = {0, 2, {}}, .every = 16, .lead = 3}), HasSubstr("a lead of 3"));
  EXPECT_THAT(refused({.seat = {0, 2, {}}, .lead = 0}), HasSubstr("a lead of 0"));
  EXPECT_EQ(refused({.seat = {63, 64, {}}}), "");
}

}  // namespace
}  // namespace tally::hot
