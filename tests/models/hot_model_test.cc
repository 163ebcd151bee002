// Who may use which hot set in which round, and where a row is meanwhile (docs/hot_keys.md): no contribution is
// counted twice or lost, nobody waits for ever; and that each rule is needed.

#include "hot_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

Findings hot(const HotSetting& setting) { return explore(HotModel(setting)); }
void expect_wrong(const HotSetting& setting, const char* why) {
  EXPECT_NE(hot(setting).violation.find(why), std::string::npos);
}
constexpr const char* kTwice = "counted twice";
constexpr const char* kLost = "is lost";

TEST(HotModel, ranks_that_are_apart_count_each_contribution_once) {
  expect_live(hot({}));
  expect_live(hot({.cold_from = 2}));
  expect_live(hot({.ranks = 3}));
}
TEST(HotModel, old_messages_change_nothing) {
  expect_live(hot({.copies = true}));
  expect_live(hot({.cold_from = 2, .copies = true}));
}
TEST(HotModel, a_rank_that_restarts_changes_nothing) {
  expect_live(hot({.restarts = 1, .copies = true}));
  expect_live(hot({.cold_from = 2, .restarts = 1, .copies = true}));
  expect_live(hot({.ranks = 3, .restarts = 1, .copies = true}));
}
TEST(HotModel, two_restarts_count_each_once_or_say_that_the_row_is_lost) {
  expect_live(hot({.restarts = 2, .copies = true}));
}

TEST(HotModel, who_does_not_wait_for_the_set_of_its_round_gets_an_error_from_the_stamp) {
  expect_live(hot({.waits = false}));
}
TEST(HotModel, without_waiting_and_stamp_a_contribution_is_lost) {
  expect_wrong({.waits = false, .stamped = false}, kLost);
}
TEST(HotModel, who_ends_a_round_before_the_server_has_all_of_it_takes_the_row_from_a_push) {
  EXPECT_GT(hot({.whole_rounds = false}).stuck, 0U);
}
TEST(HotModel, who_contributes_before_it_has_the_rows_counts_twice) {
  expect_wrong({.cold_from = 2, .rows_first = false}, kTwice);
}
TEST(HotModel, without_numbers_an_old_fetch_takes_a_row_away_for_ever) {
  EXPECT_GT(hot({.copies = true, .numbered = false}).stuck, 0U);
}
TEST(HotModel, a_row_that_does_not_say_its_rounds_leaves_ranks_waiting) {
  EXPECT_GT(hot({.tells_rounds = false}).stuck, 0U);
}
TEST(HotModel, after_a_restart_a_row_that_nobody_has_must_be_released) {
  EXPECT_GT(hot({.restarts = 1, .releases = false}).stuck, 0U);
}

TEST(HotModel, DISABLED_big_three_ranks_two_restarts_and_old_messages) {
  expect_live(hot({.ranks = 3, .restarts = 2, .copies = true}));
}

}  // namespace
}  // namespace tally::models
