// A job of two levels of boxes (docs/protocol_racks.md): no result is wrong and the end stays within reach, whatever is
// lost, doubled or late and whichever box forgets; and each of the rules is needed. docs/hazards.md has the numbers.

#include "levels_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

Findings levels(const LevelsSetting& setting) { return explore(LevelsModel(setting)); }
void expect_stuck(const LevelsSetting& setting) {
  const Findings found = levels(setting);
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.stuck, 0U);
}

TEST(LevelsModel, exact_and_live_whatever_is_lost_doubled_or_late) { expect_live(levels({.chunks = 4})); }
TEST(LevelsModel, exact_and_live_with_two_workers_in_a_rack) {
  expect_live(levels({.workers = {2, 1}, .chunks = 3}));
}
TEST(LevelsModel, exact_and_live_with_a_window_of_two) { expect_live(levels({.chunks = 3, .window = 2})); }
TEST(LevelsModel, exact_and_live_when_the_parent_restarts) {
  expect_live(levels({.chunks = 3, .parent_restarts = 1}));
}
TEST(LevelsModel, exact_and_live_when_a_rack_s_box_restarts) {
  expect_live(levels({.chunks = 3, .rack_restarts = 1}));
  expect_live(levels({.workers = {2, 1}, .chunks = 3, .rack_restarts = 1}));
}
TEST(LevelsModel, exact_and_live_when_both_restart) {
  expect_live(levels({.chunks = 3, .parent_restarts = 1, .rack_restarts = 1}));
}
TEST(LevelsModel, DISABLED_big) {
  expect_live(levels({.workers = {2, 2}, .chunks = 3, .parent_restarts = 1}));
  expect_live(levels({.workers = {2, 2}, .chunks = 3, .rack_restarts = 1}));
  expect_live(levels({.workers = {2, 1}, .chunks = 3, .parent_restarts = 1, .rack_restarts = 1}));
  expect_live(levels({.workers = {2, 1}, .chunks = 3, .window = 2, .rack_restarts = 1}));
  expect_live(levels({.chunks = 4, .window = 2, .parent_restarts = 1, .rack_restarts = 1}));
}

TEST(LevelsModel, a_box_that_does_not_send_again_what_waits_hangs) { expect_stuck({.sends_again = false}); }
TEST(LevelsModel, a_sum_of_a_rack_that_is_given_out_is_a_wrong_result) {
  EXPECT_NE(levels({.waits = false}).violation, "");
}
TEST(LevelsModel, a_sum_that_comes_twice_and_is_added_twice_is_a_wrong_result) {
  EXPECT_NE(levels({.adds_once = false}).violation, "");
}
// Whom a new epoch finds with a result that the other rack lost.
TEST(LevelsModel, without_questions_to_other_racks_a_lost_result_stays_lost) {
  expect_stuck({.parent_restarts = 1, .asks_racks = false});
}
TEST(LevelsModel, a_rack_s_box_that_forgets_and_goes_on_hangs) {
  expect_stuck({.chunks = 4, .rack_restarts = 1, .renews = false});
}
// In another generation chunks have the same numbers and other values.
TEST(LevelsModel, what_is_of_an_epoch_before_is_a_wrong_result_wherever_it_counts) {
  LevelsSetting s{.chunks = 2, .parent_restarts = 1, .other_generation = true};
  expect_live(levels(s));
  for (bool LevelsSetting::*const of_epoch :
       {&LevelsSetting::contributions_of_epoch, &LevelsSetting::sums_of_epoch,
        &LevelsSetting::results_of_epoch, &LevelsSetting::told_of_epoch}) {
    s.*of_epoch = false;
    EXPECT_NE(levels(s).violation, "");
    s.*of_epoch = true;
  }
}

}  // namespace
}  // namespace tally::models
