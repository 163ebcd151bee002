// Who gives way in a full table of the embedded server (dataplane/server/merge_table.h): with as many states
// as jobs nobody keeps anybody from its lowest unfinished chunk. docs/hazards.md has the numbers.

#include "table_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

Findings table(const TableSetting& setting) { return explore(TableModel(setting)); }
void expect_stuck(const TableSetting& setting) { EXPECT_GT(table(setting).stuck, 0U); }

TEST(TableModel, with_as_many_states_as_jobs_all_come_to_the_end) {
  expect_live(table({.states = 2, .chunks = 3, .lost_for_one = true}));
  expect_live(table({.states = 2, .chunks = 5, .window = 4}));
}
TEST(TableModel, with_fewer_states_than_jobs_they_keep_each_other_waiting) { expect_stuck({.states = 1}); }
TEST(TableModel, a_job_without_a_state_would_wait_for_one_that_has_several) {
  expect_stuck({.states = 2, .chunks = 5, .window = 4, .one_each = false});
}
TEST(TableModel, a_later_chunk_that_is_not_the_oldest_would_keep_an_earlier_one_waiting) {
  expect_stuck({.states = 2, .chunks = 5, .window = 4, .any_later = false});
}

TEST(TableModel, DISABLED_big_more_states_than_jobs) {
  expect_live(table({.states = 3, .chunks = 5, .window = 4}));
}
TEST(TableModel, DISABLED_big_three_jobs) { expect_live(table({.jobs = 3, .states = 3, .chunks = 3})); }

}  // namespace
}  // namespace tally::models
