// A job over several boxes (docs/protocol_boxes.md): no sum is wrong whatever a box of it forgets and packets do,
// each epoch that ends has a reason, and the end stays within reach; and each of the rules is needed.
// docs/hazards.md has the numbers.

#include "boxes_model.h"

#include <gtest/gtest.h>

#include "explorer.h"

namespace tally::models {
namespace {

using Plans = decltype(BoxesSetting::plans);

Findings boxes(const BoxesSetting& setting) { return explore(BoxesModel(setting)); }
void expect_broken(const BoxesSetting& setting, const char* how) {
  const Findings found = boxes(setting);
  EXPECT_NE(found.violation.find(how), std::string::npos) << found.violation;
}
void expect_wrong_sum(const BoxesSetting& setting) {
  expect_broken(setting, "each member's contribution once");
}

// Ranks at the other box; rank 0 is at home.
constexpr BoxesRoute kNobody{}, kOne{.guest = 0b100}, kTwo{.guest = 0b110}, kRack{.guest = 0b1100};
// Two of three pass both boxes by.
constexpr BoxesRoute kPast{.guest = 0b110, .direct = 0b101};
constexpr BoxesRoute kSecond{.guest = 0b10}, kBoth{.guest = 0b11};  // of two ranks
constexpr Plans kPair{{{kSecond}, {kBoth}}};
constexpr Plans kStays{{{kTwo, kOne}, {kTwo, kOne}}}, kMoves{{{kTwo, kOne}, {kOne, kTwo}}},
    kComesHome{{{kTwo}, {kNobody}}}, kRacks{{{kRack}, {kRack}}}, kMixed{{{kPast}, {kTwo}}};

TEST(BoxesModel, exact_and_live_whatever_the_other_box_forgets) {
  expect_live(boxes({.plans = kStays, .guest_forgets = 2, .losses = 1}));
  expect_live(boxes({.ranks = 4, .plans = kRacks, .guest_forgets = 1}));
}
TEST(BoxesModel, exact_and_live_over_a_change_of_the_plan) {
  expect_live(boxes({.plans = kMoves, .plan_changes = 2, .losses = 1}));
  expect_live(boxes({.plans = kComesHome, .plan_changes = 1, .late = 1}));
  expect_live(boxes({.plans = kMixed, .plan_changes = 1, .losses = 1}));
}
TEST(BoxesModel, exact_and_live_over_another_generation) {
  expect_live(boxes({.plans = kMoves, .other_generation = 1, .plan_changes = 1, .late = 1}));
}
TEST(BoxesModel, exact_and_live_when_the_home_restarts) {
  expect_live(boxes({.plans = kMoves, .home_restarts = 1, .guest_forgets = 1, .losses = 1}));
}
TEST(BoxesModel, exact_and_live_when_members_lose_a_box_that_lives) {
  expect_live(boxes({.plans = kStays, .cuts = 2, .losses = 1}));
}
// Both boxes think they are the home for as long as they like, or neither does; members go to either of them.
TEST(BoxesModel, exact_and_live_when_another_box_takes_the_job_over) {
  expect_live(boxes({.plans = kStays, .takeovers = 1, .strays = 1}));
  expect_live(boxes({.ranks = 2, .plans = kPair, .takeovers = 1, .strays = 3}));
  expect_live(boxes({.ranks = 2, .plans = kPair, .takeovers = 1, .losses = 1}));
  expect_live(boxes({.ranks = 2, .plans = kPair, .takeovers = 2}));
}
// The former home begins anew, and thinks that it is the home until it hears better.
TEST(BoxesModel, exact_and_live_when_the_former_home_comes_back) {
  expect_live(boxes({.ranks = 2, .plans = kPair, .home_restarts = 1, .takeovers = 1}));
}
TEST(BoxesModel, exact_and_live_when_the_home_dies) {
  expect_live(boxes({.plans = kStays, .deaths = 1, .losses = 1}));
  expect_live(boxes({.ranks = 2, .plans = kPair, .takeovers = 1, .deaths = 1}));
}
TEST(BoxesModel, exact_and_live_over_another_generation_of_another_home) {
  expect_live(boxes({.ranks = 2, .plans = kPair, .other_generation = 1, .takeovers = 1, .strays = 1}));
}
TEST(BoxesModel, exact_and_live_with_two_chunks) {
  expect_live(boxes({.chunks = 2, .plans = kStays, .losses = 1, .crowded = true}));
}
TEST(BoxesModel, DISABLED_big_late_packets_of_former_epochs) {
  expect_live(boxes({.plans = kMoves, .plan_changes = 1, .guest_forgets = 1, .late = 1}));
  expect_live(boxes({.plans = kStays, .plan_changes = 2, .late = 1}));
}
TEST(BoxesModel, DISABLED_big_losses_and_late_packets) {
  expect_live(boxes({.plans = kStays, .guest_forgets = 1, .losses = 1, .late = 1}));
  expect_live(boxes({.ranks = 4, .plans = kRacks, .guest_forgets = 1, .late = 1}));
}

TEST(BoxesModel, DISABLED_big_late_packets_of_two_homes) {
  expect_live(boxes({.ranks = 2, .plans = kPair, .takeovers = 1, .strays = 1, .late = 1}));
  expect_live(boxes({.plans = kStays, .deaths = 1, .losses = 1, .late = 1}));
  expect_live(boxes({.ranks = 2, .plans = kPair, .home_restarts = 1, .takeovers = 1, .strays = 1}));
}

TEST(BoxesModel, a_home_that_does_not_yield_splits_the_job) {
  const Findings found = boxes({.plans = kStays, .takeovers = 1, .strays = 1, .yields = false});
  EXPECT_EQ(found.violation, "") << "no sum is wrong even so";
  EXPECT_GT(found.stuck, 0U);
}
TEST(BoxesModel, a_home_that_dies_takes_the_job_along_unless_another_has_its_seat) {
  const Findings found = boxes({.plans = kStays, .deaths = 1, .seat_moves = false});
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.stuck, 0U);
}
TEST(BoxesModel, a_contribution_that_counts_in_another_epoch_is_a_wrong_sum) {
  expect_wrong_sum({.plans = kStays, .other_generation = 1, .plan_changes = 1, .epochs_apart = false});
}
TEST(BoxesModel, a_server_that_adds_what_overlaps_makes_a_wrong_sum) {
  expect_wrong_sum({.plans = kStays, .disjoint = false});
}
TEST(BoxesModel, a_box_that_finishes_what_is_whole_here_makes_a_wrong_sum) {
  expect_wrong_sum({.plans = kStays, .finishes_whole = false});
}
TEST(BoxesModel, a_result_of_an_earlier_epoch_that_is_taken_is_a_wrong_sum) {
  expect_wrong_sum(
      {.plans = kStays, .other_generation = 1, .plan_changes = 1, .late = 1, .results_of_epoch = false});
}
// A plan that is wrong costs time, and no bit of a sum.
TEST(BoxesModel, here_of_another_plan_waits_for_timers) {
  BoxesSetting s{.plans = kComesHome, .timers = false, .here_of_epoch = false};
  EXPECT_GT(boxes(s).stuck, 0U);
  s.timers = true;
  expect_live(boxes(s));
  s.timers = false;
  s.here_of_epoch = true;
  expect_live(boxes(s));
}
// An ENLIST that is late, of an epoch that the box has never heard of: it must not take the place of a newer one.
TEST(BoxesModel, a_box_that_takes_any_other_epoch_falls_back_to_a_former_one) {
  expect_broken({.plans = kStays, .plan_changes = 1, .late = 1, .challenges = false}, "without a reason");
}
TEST(BoxesModel, memory_of_former_epochs_makes_members_give_up_a_box_that_lives) {
  expect_broken({.plans = kStays, .plan_changes = 1, .late = 1, .challenges = false, .remembers = true},
                "is given up");
}
TEST(BoxesModel, a_lost_of_a_former_epoch_that_is_taken_ends_another_one) {
  expect_broken({.plans = kStays, .guest_forgets = 2, .late = 1, .lost_of_epoch = false}, "without a reason");
}
TEST(BoxesModel, nobody_comes_back_to_a_box_that_forgot_unless_the_home_is_told) {
  const Findings found = boxes({.plans = kStays, .guest_forgets = 1, .says_lost = false});
  EXPECT_EQ(found.violation, "");
  EXPECT_GT(found.stuck, 0U);
}

}  // namespace
}  // namespace tally::models
