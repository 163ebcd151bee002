// The place of a rack's box in the job of its parent (docs/protocol_racks.md, 18.2): no rack is taken for one that lost
// its state unless it has, no worker meets an epoch twice, and the end stays within reach; and each of the rules is needed.

#include "seat_model.h"

#include <gtest/gtest.h>

#include <string>

#include "explorer.h"

namespace tally::models {
namespace {

Findings seats(const SeatSetting& setting) { return explore(SeatModel(setting)); }
void expect_broken(const SeatSetting& setting, const std::string& what) {
  EXPECT_EQ(seats(setting).violation.substr(0, what.size()), what);
}
void expect_stuck(const SeatSetting& setting) {
  const Findings found = seats(setting);
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.stuck, 0U);
}

TEST(SeatModel, a_rack_that_never_lost_state_is_never_taken_for_one_that_did) {
  expect_live(seats({.parent_restarts = 1}));
  expect_live(seats({.calls = 1}));
}
TEST(SeatModel, no_worker_meets_an_epoch_twice_and_none_waits_for_ever_when_racks_restart) {
  expect_live(seats({.rack_restarts = 1}));
}
TEST(SeatModel, DISABLED_big) {
  expect_live(seats({.parent_restarts = 1, .calls = 1}));
  expect_live(seats({.parent_restarts = 1, .rack_restarts = 1}));
  expect_live(seats({.rack_restarts = 1, .calls = 1}));
  expect_live(seats({.parent_restarts = 2, .rack_restarts = 1}));
  expect_live(seats({.rack_restarts = 2, .calls = 1}));
}

TEST(SeatModel, a_rack_that_doubts_and_says_no_epoch_is_taken_for_one_that_lost_its_state) {
  expect_broken({.says_its_epoch = false}, "a rack that has lost nothing");
}
TEST(SeatModel, a_question_out_of_an_epoch_with_numbers_that_do_not_fit_it_hangs) {
  expect_stuck({.begins_at_first = false});
}
TEST(SeatModel, a_rack_that_does_not_bring_what_it_did_not_tell_yet_ends_the_generation_of_others) {
  expect_broken({.calls = 1, .brings_what_it_was_told = false}, "a generation that all racks know");
}
TEST(SeatModel, workers_who_are_told_before_the_echo_meet_an_epoch_twice) {
  expect_broken({.rack_restarts = 1, .told_after_echo = false}, "workers meet an epoch twice");
}
TEST(SeatModel, workers_who_are_told_of_an_epoch_that_was_overtaken_hang) {
  expect_stuck({.parent_restarts = 1, .takes_offers_back = false});
}

}  // namespace
}  // namespace tally::models
