// When a lost box is tried again.

#include <gtest/gtest.h>

#include "planning/comeback.h"

namespace tally::planning {
namespace {

constexpr TimeNs kStart = 1'000 * kSecond;
constexpr std::uint64_t kSecondBox = 2;

TEST(PlanningComeback, ABoxIsTriedAfterTenSeconds) {
  Comeback comeback;
  EXPECT_EQ(comeback.look(kStart, kSecondBox), 0U);
  EXPECT_EQ(comeback.look(kStart + Comeback::kFirst - 1, kSecondBox), 0U);
  EXPECT_EQ(comeback.look(kStart + Comeback::kFirst, kSecondBox), kSecondBox);
  EXPECT_EQ(comeback.look(kStart + Comeback::kFirst + 1, kSecondBox), 0U) << "it is being tried";
}

TEST(PlanningComeback, TrialsThatFailBecomeRarer) {
  Comeback comeback;
  TimeNs now = kStart;
  TimeNs expected = Comeback::kFirst;
  for (int trial = 0; trial < 10; ++trial) {
    ASSERT_EQ(comeback.look(now, kSecondBox), 0U);
    ASSERT_EQ(comeback.look(now + expected - 1, kSecondBox), 0U) << trial;
    ASSERT_EQ(comeback.look(now + expected, kSecondBox), kSecondBox) << trial;
    now += expected;
    ASSERT_EQ(comeback.look(now + 1, 0), 0U);
    now += kSecond;  // and lost again
    expected = std::min(2 * expected, Comeback::kRarest);
  }
  EXPECT_EQ(expected, Comeback::kRarest);
}

TEST(PlanningComeback, WhatStayedBeginsAnew) {
  Comeback comeback;
  (void)comeback.look(kStart, kSecondBox);
  (void)comeback.look(kStart + Comeback::kFirst, kSecondBox);
  (void)comeback.look(kStart + Comeback::kFirst, 0);
  const TimeNs later = kStart + 2 * Comeback::kFirst;
  EXPECT_EQ(comeback.look(later, kSecondBox), 0U);
  EXPECT_EQ(comeback.look(later + Comeback::kFirst, kSecondBox), kSecondBox);
}

TEST(PlanningComeback, NewsOfABoxAreFollowedAtOnceButNotAgainAndAgain) {
  Comeback comeback;
  comeback.seen(1, kStart);  // it is not lost
  (void)comeback.look(kStart, kSecondBox);
  comeback.seen(0, kStart);
  EXPECT_EQ(comeback.look(kStart + 1, kSecondBox), 0U);
  comeback.seen(1, kStart + 1);
  EXPECT_EQ(comeback.look(kStart + 1, kSecondBox), kSecondBox);
  (void)comeback.look(kStart + 2, 0);
  (void)comeback.look(kStart + kSecond, kSecondBox);  // its members do not reach it
  comeback.seen(1, kStart + 2 * kSecond);
  EXPECT_EQ(comeback.look(kStart + 3 * kSecond, kSecondBox), 0U);
  comeback.seen(1, kStart + 2 + Comeback::kFirst);
  EXPECT_EQ(comeback.look(kStart + 2 + Comeback::kFirst, kSecondBox), kSecondBox);
}

// What was asked for and not done is asked for again, and not in every turn.
TEST(PlanningComeback, ATrialThatWasRefusedComesAgain) {
  Comeback comeback;
  (void)comeback.look(kStart, kSecondBox);
  EXPECT_EQ(comeback.look(kStart + Comeback::kFirst, kSecondBox), kSecondBox);
  EXPECT_EQ(comeback.look(kStart + 2 * Comeback::kFirst - 1, kSecondBox), 0U);
  EXPECT_EQ(comeback.look(kStart + 2 * Comeback::kFirst, kSecondBox), kSecondBox);
}

}  // namespace
}  // namespace tally::planning
