// What the box may give out INCOMPLETE, and who takes it, is such that no two ranks have different sums of a
// chunk (docs/protocol.md, 11.8); and each of the rules is needed. docs/hazards.md has the numbers.

#include "straggler_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

Findings stragglers(const StragglerSetting& setting) { return explore(StragglerModel(setting)); }
void expect_two_sums(const StragglerSetting& setting) {
  EXPECT_NE(stragglers(setting).violation.find("two sums"), std::string::npos);
}

TEST(StragglerModel, results_agree_without_a_restart) {
  expect_live(stragglers({.chunks = 3}));
  expect_live(stragglers({.ranks = 2, .chunks = 4}));
}
TEST(StragglerModel, results_agree_over_restarts) {
  expect_live(stragglers({.chunks = 2, .restarts = 1}));
  expect_live(stragglers({.ranks = 2, .chunks = 3, .restarts = 2}));
}
TEST(StragglerModel, results_agree_where_old_joins_come_first) {
  expect_live(stragglers({.chunks = 2, .restarts = 1, .old_joins = true}));
  expect_live(stragglers({.ranks = 2, .chunks = 3, .restarts = 1, .old_joins = true}));
}

TEST(StragglerModel, an_older_chunk_that_takes_a_complete_entry_gets_a_second_sum) {
  expect_two_sums({.chunks = 3, .ordered = false});
}
TEST(StragglerModel, without_the_fence_a_chunk_of_an_earlier_epoch_gets_a_second_sum) {
  expect_two_sums({.chunks = 1, .restarts = 1, .fence = false});
}
TEST(StragglerModel, a_result_of_an_earlier_epoch_that_is_taken_is_a_second_sum) {
  expect_two_sums({.chunks = 1, .restarts = 1, .drops_old = false});
}
TEST(StragglerModel, before_all_have_entered_the_fence_may_be_that_of_old_joins) {
  expect_two_sums({.chunks = 1, .restarts = 1, .old_joins = true, .all_entered = false});
}
TEST(StragglerModel, who_has_fallen_behind_would_ask_for_ever) {
  const Findings found = stragglers({.chunks = 3, .fails_behind = false});
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.stuck, 0U);
}

TEST(StragglerModel, DISABLED_big_restart) { expect_live(stragglers({.chunks = 3, .restarts = 1})); }

}  // namespace
}  // namespace tally::models
