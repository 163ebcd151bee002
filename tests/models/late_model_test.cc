// Rounds that end without some workers: every push that was answered is in the rows, once, and nobody waits for ever; and
// each rule is needed.

#include "late_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

Findings late(const LateSetting& setting) { return explore(LateModel(setting)); }
void expect_wrong(const LateSetting& setting, const char* why) {
  EXPECT_NE(late(setting).violation.find(why), std::string::npos);
}

TEST(LateModel, every_push_is_in_the_rows_once_however_late) {
  expect_live(late({}));
  expect_live(late({.least = 1}));
  expect_live(late({.servers = 1, .least = 3}));
}
TEST(LateModel, who_is_lost_or_leaves_holds_nobody_up) {
  expect_live(late({.servers = 1, .losses = 2}));
  expect_live(late({.servers = 1, .leaves = 2}));
  expect_live(late({.servers = 1, .least = 3, .losses = 1, .leaves = 1}));
  expect_live(late({.workers = 2, .losses = 1, .leaves = 1}));
}

TEST(LateModel, a_late_push_that_is_not_carried_is_lost) { expect_wrong({.carries = false}, "is lost"); }
TEST(LateModel, a_push_that_is_answered_before_its_round_ends_is_not_in_the_rows) {
  expect_wrong({.applies_first = false}, "is lost");
}
TEST(LateModel, a_round_that_leaves_pushes_behind_has_them_twice) {
  expect_wrong({.takes_all = false}, "applied twice");
}
TEST(LateModel, a_round_that_waits_for_who_is_gone_does_so_for_ever) {
  EXPECT_GT(late({.servers = 1, .age = false, .skips_gone = false}).stuck, 0U);
  EXPECT_EQ(late({.servers = 1, .age = false}).stuck, 0U);
}
// At each server a worker is missing that waits at the other one.
TEST(LateModel, rounds_without_an_age_wait_for_one_another) { EXPECT_GT(late({.age = false}).stuck, 0U); }

TEST(LateModel, DISABLED_big_two_servers_losses_and_leaves) { expect_live(late({.losses = 1, .leaves = 1})); }

}  // namespace
}  // namespace tally::models
