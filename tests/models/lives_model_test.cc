// Tables that follow each other: what was given up ends no later one, and nobody waits for ever; and each rule is needed.

#include "lives_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

Findings lives(const LivesSetting& setting) { return explore(LivesModel(setting)); }
void expect_wrong(const LivesSetting& setting) {
  EXPECT_NE(lives(setting).violation.find("is broken off"), std::string::npos);
}

TEST(LivesModel, what_was_given_up_breaks_off_nothing_later) {
  expect_live(lives({}));
  expect_live(lives({.gives_up = 2}));
  expect_live(lives({.lives = 3, .gives_up = 3}));
  expect_live(lives({.workers = 3, .servers = 1, .gives_up = 2}));
}

TEST(LivesModel, a_late_leave_that_is_taken_for_the_next_life_breaks_that_off) {
  expect_wrong({.knows_lives = false});
}
TEST(LivesModel, a_word_of_the_next_life_that_does_not_wait_is_refused) { expect_wrong({.holds = false}); }

}  // namespace
}  // namespace tally::models
