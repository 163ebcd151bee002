// Which keys are hot, from sums that all ranks have.

#include "hot/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace tally::hot {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Weight sum_of(const std::vector<double>& shares) {
  Weight sum;
  for (const double share : shares) {
    const Weight one = weight_of(share);
    sum.shares += one.shares;
    sum.misses += one.misses;
  }
  return sum;
}
double gain(const std::vector<double>& shares) {
  return static_cast<double>(gain_of(sum_of(shares))) / kOneShare;
}
// A key that two workers have with this share: its gain is the square.
Candidate two(Key key, double share) { return {key, sum_of({share, share})}; }
KeySet chosen(const KeySet& current, const std::vector<Candidate>& candidates, const Limits& limits) {
  return choose(current, candidates, 2, limits);
}
std::vector<Key> keys(const KeySet& set) { return {set.keys().begin(), set.keys().end()}; }

TEST(HotGain, it_is_what_the_box_spares) {
  EXPECT_EQ(gain({}), 0);
  EXPECT_EQ(gain({1.0}), 0) << "what one worker has nobody merges";
  EXPECT_NEAR(gain({0.5, 0.5}), 0.25, 1e-6);
  EXPECT_NEAR(gain({1.0, 1.0, 1.0}), 2, 1e-4);
  EXPECT_NEAR(gain(std::vector<double>(64, 1.0)), 63, 1e-2);
}
TEST(HotGain, in_integers_it_is_right_to_a_millionth) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> log_share(-9, -0.01);
  for (int i = 0; i < 10'000; ++i) {
    std::vector<double> shares(1 + random() % 64);
    double sum = 0;
    double none = 1;
    for (double& share : shares) {
      share = std::exp(log_share(random));
      sum += share;
      none *= 1 - share;
    }
    EXPECT_NEAR(gain(shares), sum - (1 - none), 8e-5) << shares.size();
  }
}
TEST(HotGain, shares_of_64_workers_are_an_int32) {
  const Weight most = weight_of(1.0);
  EXPECT_LE(64 * std::int64_t{most.shares}, INT32_MAX);
  EXPECT_LE(64 * std::int64_t{most.misses}, INT32_MAX);
  EXPECT_EQ(weight_of(7.0).shares, most.shares);
  EXPECT_EQ(weight_of(-1.0).misses, 0);
}

TEST(HotChoice, the_best_ones_in_order_as_many_as_there_is_room) {
  const std::vector<Candidate> all{two(1, 0.1), two(2, 0.9), two(3, 0.5), two(4, 0.7)};
  const KeySet set = chosen({}, all, {.most = 3, .least_fill = 0});
  EXPECT_THAT(keys(set), ElementsAre(2, 4, 3));
  EXPECT_EQ(set.number(), 1U);
  EXPECT_EQ(set.id_of(4), 1U);
  EXPECT_FALSE(set.has(1));
  EXPECT_THAT(keys(chosen({}, all, {.most = 0, .least_fill = 0})), IsEmpty());
}
TEST(HotChoice, keys_of_one_worker_alone_stay_cold) {
  const KeySet set =
      chosen({}, {{1, sum_of({0.9})}, {2, sum_of({0.013})}, two(3, 0.05)}, {.most = 9, .least_fill = 0});
  EXPECT_THAT(keys(set), ElementsAre(3));
}
TEST(HotChoice, it_is_as_large_as_batches_fill_it) {
  const std::vector<Candidate> all{two(1, 0.9), two(2, 0.5), two(3, 0.2), two(4, 0.1)};
  EXPECT_THAT(keys(chosen({}, all, {.most = 4, .least_fill = 50})), ElementsAre(1, 2, 3)) << "1.6 of 3";
  EXPECT_THAT(keys(chosen({}, all, {.most = 4, .least_fill = 60})), ElementsAre(1, 2)) << "1.4 of 2";
  EXPECT_THAT(keys(chosen({}, all, {.most = 4, .least_fill = 95})), IsEmpty());
  EXPECT_THAT(keys(chosen({}, all, {.most = 2, .least_fill = 1})), ElementsAre(1, 2));
}
// Gains are squares: 1.2 and 0.8 times the border's 0.25 are shares of 0.548 and 0.447.
TEST(HotChoice, who_is_in_stays_down_to_four_fifths_of_the_border_and_who_is_not_needs_six_fifths) {
  const KeySet before(6, {1, 2});
  const auto after = [&](double one, double three) {
    return keys(chosen(before, {two(1, one), two(2, 0.9), two(3, three)}, {.most = 2, .least_fill = 0}));
  };
  EXPECT_THAT(after(0.46, 0.5), ElementsAre(1, 2)) << "0.85 of the border";
  EXPECT_THAT(after(0.44, 0.5), ElementsAre(3, 2)) << "0.77 of it";
  EXPECT_THAT(after(0.5, 0.54), ElementsAre(1, 2)) << "the border is its own, it is 1.17 of the other";
  EXPECT_THAT(after(0.5, 0.6), ElementsAre(3, 2));
}
TEST(HotChoice, a_place_that_is_left_is_taken_by_the_best_whatever_its_gain) {
  const KeySet set =
      chosen(KeySet(1, {1}), {two(1, 0.9), two(2, 0.3), two(3, 0.2)}, {.most = 2, .least_fill = 0});
  EXPECT_THAT(keys(set), ElementsAre(1, 2));
}
TEST(HotChoice, who_stays_keeps_its_number_and_newcomers_take_the_free_ones_best_first) {
  const KeySet before(1, {10, 11, 12, 13});
  const KeySet set =
      chosen(before, {two(10, 0), two(11, 0.3), two(12, 0), two(13, 0.8), two(20, 0.5), two(21, 0.9)},
             {.most = 4, .least_fill = 0});
  EXPECT_THAT(keys(set), ElementsAre(21, 11, 20, 13));
}
TEST(HotChoice, a_set_that_shrinks_moves_only_those_beyond_its_end) {
  const KeySet before(1, {10, 11, 12, 13});
  const KeySet set =
      chosen(before, {two(10, 0), two(11, 0.3), two(12, 0), two(13, 0.8)}, {.most = 4, .least_fill = 0});
  EXPECT_THAT(keys(set), ElementsAre(13, 11));
}
TEST(HotChoice, if_nothing_changes_only_its_number_does) {
  const std::vector<Candidate> all{two(1, 0.9), two(2, 0.5), two(3, 0.2)};
  const KeySet one = chosen({}, all, {.most = 2, .least_fill = 0});
  const KeySet two = chosen(one, all, {.most = 2, .least_fill = 0});
  EXPECT_EQ(keys(one), keys(two));
  EXPECT_EQ(two.number(), 2U);
}
TEST(HotChoice, the_order_of_candidates_does_not_matter) {
  std::vector<Candidate> all;
  for (Key key = 0; key < 200; ++key) all.push_back(two(key, 0.5 + static_cast<double>(key % 3) / 10));
  const KeySet first = chosen({}, all, {.most = 100, .least_fill = 0});
  std::shuffle(all.begin(), all.end(), std::mt19937_64(1));
  EXPECT_EQ(keys(first), keys(chosen({}, all, {.most = 100, .least_fill = 0})));
}

TEST(HotKeySet, it_finds_each_key_and_no_other) {
  std::vector<Key> all;
  for (Key key = 0; key < 1'000; ++key) all.push_back(key * 0x9e3779b97f4a7c15ULL);
  const KeySet set(1, all);
  for (std::uint32_t id = 0; id < all.size(); ++id) EXPECT_EQ(set.id_of(all[id]), id);
  EXPECT_FALSE(set.has(12'345));
  EXPECT_FALSE(KeySet().has(0));
}

class HotStamp : public testing::Test {
 protected:
  static Result<void> check(const KeySet& own, const std::vector<KeySet>& all) {
    Stamp sum{};
    for (const KeySet& set : all)
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += stamp_of(set)[i];
    return check_stamp(own, sum, static_cast<std::uint32_t>(all.size()));
  }
  static KeySet set(std::uint32_t number) { return {number, {1, 2, 3}}; }
};

TEST_F(HotStamp, one_set_of_all_ranks_is_right_up_to_64) {
  EXPECT_TRUE(check(set(7), std::vector<KeySet>(8, set(7))));
  EXPECT_TRUE(check(set(4'095), std::vector<KeySet>(64, set(4'095))));
  EXPECT_TRUE(check(KeySet(), std::vector<KeySet>(3)));
}
TEST_F(HotStamp, the_error_has_both_numbers_and_how_many_have_the_other) {
  const auto two = check(set(7), {set(7), set(6), set(7), set(6), set(7)});
  ASSERT_FALSE(two);
  EXPECT_THAT(two.error().what, testing::HasSubstr("this rank uses set 7, 2 of 5 ranks use set 6"));
  const auto one = check(set(6), {set(7), set(6), set(7)});
  ASSERT_FALSE(one);
  EXPECT_THAT(one.error().what, testing::HasSubstr("this rank uses set 6, 2 of 3 ranks use set 7"));
}
TEST_F(HotStamp, numbers_that_meet_at_the_end_of_the_stamp_are_told_right) {
  const auto wrapped = check(set(4'096), {set(4'096), set(4'095)});
  ASSERT_FALSE(wrapped);
  EXPECT_THAT(wrapped.error().what, testing::HasSubstr("this rank uses set 4096, 1 of 2 ranks use set 4095"));
}
TEST_F(HotStamp, three_sets_are_an_error_even_if_their_numbers_add_up) {
  const auto three = check(set(7), {set(6), set(7), set(8)});
  ASSERT_FALSE(three);
  EXPECT_THAT(three.error().what, testing::HasSubstr("others several other sets"));
}
TEST_F(HotStamp, one_number_with_other_keys_or_another_order_is_an_error) {
  EXPECT_FALSE(check(set(7), {set(7), KeySet(7, {1, 2, 4})}));
  EXPECT_FALSE(check(set(7), {set(7), KeySet(7, {2, 1, 3})}));
}

}  // namespace
}  // namespace tally::hot
