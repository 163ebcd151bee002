// Rounds that a clock calls and all libraries take part in, whatever their programs do: every push is in everybody's rows
// once, on whatever side its row is, and nobody waits for ever; and each rule is needed.

#include "called_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

Findings called(const CalledSetting& setting) { return explore(CalledModel(setting)); }
void expect_wrong(const CalledSetting& setting, const char* why) {
  EXPECT_NE(called(setting).violation.find(why), std::string::npos);
}

TEST(CalledModel, every_push_is_in_everybodys_rows_once_however_late) {
  expect_live(called({.workers = 2, .least = 1}));
  expect_live(called({.workers = 2, .hot_from = 0, .cold_from = 2}));
  expect_live(called({}));
}
// One clock: nobody waits at another.
TEST(CalledModel, rounds_need_no_age) { expect_live(called({.workers = 2, .age = false})); }
TEST(CalledModel, a_worker_that_is_lost_is_heard_of_by_all) {
  expect_live(called({.workers = 2, .least = 1, .losses = 1}));
  expect_live(called({.pushes = 1, .losses = 1}));
}

TEST(CalledModel, a_push_that_is_split_before_its_round_is_called_goes_where_its_row_is_not) {
  expect_wrong({.workers = 2, .least = 1, .splits_late = false}, "goes where its row is not");
}
TEST(CalledModel, a_round_waits_for_ever_for_who_has_nothing_and_so_takes_no_part) {
  EXPECT_GT(called({.workers = 2, .least = 1, .takes_part = false}).stuck, 0U);
}
TEST(CalledModel, a_push_behind_a_question_that_is_not_told_is_never_called) {
  EXPECT_GT(called({.workers = 2, .tells = false}).stuck, 0U);
}
TEST(CalledModel, who_asks_about_a_round_that_was_called_must_hear_it) {
  EXPECT_GT(called({.workers = 2, .least = 1, .answers_called = false}).stuck, 0U);
}
TEST(CalledModel, a_second_answer_that_calls_a_round_calls_one_that_the_others_do_not_hear_of) {
  EXPECT_GT(called({.workers = 2, .pushes = 1, .least = 1, .knows_again = false}).stuck, 0U);
}
TEST(CalledModel, a_table_that_ends_before_all_close_leaves_pushes_behind) {
  expect_wrong({.workers = 2, .all_close = false}, "ends with a push to come");
}
TEST(CalledModel, who_waits_for_a_round_must_hear_that_a_worker_is_lost) {
  EXPECT_GT(called({.workers = 2, .losses = 1, .refuses = false}).stuck, 0U);
}

TEST(CalledModel, DISABLED_big_three_workers_with_two_pushes_and_a_loss) {
  expect_live(called({.losses = 1}));
}

}  // namespace
}  // namespace tally::models
