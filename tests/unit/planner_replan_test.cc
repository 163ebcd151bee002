// When a plan is made anew: each trigger, and what holds it back.

#include <gtest/gtest.h>

#include "planner/replan.h"

namespace tally::planner_test {
namespace {

using planner::Decision;
using planner::Effort;
using planner::ReplanRules;
using planner::Trigger;

constexpr TimeNs kStart = 100 * kSecond;
constexpr TimeNs kRoundTrip = 200 * kMicrosecond;
constexpr TimeNs kOld = kStart + 10 * kRoundTrip;  // the last epoch is old enough

class PlannerReplan : public testing::Test {
 protected:
  // Resource 2 is not used.
  PlannerReplan() { rules_.published(kStart, kRoundTrip, {100, 50, 0, 10}); }
  Trigger why(TimeNs now) { return rules_.decide(now).why; }

  ReplanRules rules_;
};

TEST_F(PlannerReplan, NothingHappensByItself) {
  EXPECT_EQ(why(kOld), Trigger::kNothing);
  EXPECT_EQ(why(kStart + 1000 * kSecond), Trigger::kNothing);
}

TEST_F(PlannerReplan, AResidualThatIsOffForASecond) {
  rules_.saw_residual(kOld, 1, 44);
  rules_.saw_residual(kOld + kSecond / 2, 1, 40);
  EXPECT_EQ(why(kOld + kSecond - 1), Trigger::kNothing);
  const Decision decision = rules_.decide(kOld + kSecond);
  EXPECT_EQ(decision.why, Trigger::kDrift);
  EXPECT_EQ(decision.resource, 1U);
  EXPECT_EQ(decision.effort, Effort::kFull);
  EXPECT_EQ(why(kOld + kSecond), Trigger::kNothing);  // heard
}

TEST_F(PlannerReplan, AResidualThatIsMoreThanPlannedCountsToo) {
  rules_.saw_residual(kOld, 0, 111);
  EXPECT_EQ(why(kOld + kSecond), Trigger::kDrift);
}

TEST_F(PlannerReplan, AResidualThatComesBackInBetweenBeginsAnew) {
  rules_.saw_residual(kOld, 1, 44);
  rules_.saw_residual(kOld + kSecond - 1, 1, 46);
  rules_.saw_residual(kOld + kSecond, 1, 44);
  EXPECT_EQ(why(kOld + 2 * kSecond - 1), Trigger::kNothing);
  EXPECT_EQ(why(kOld + 2 * kSecond), Trigger::kDrift);
}

TEST_F(PlannerReplan, TenPercentAreNotEnoughAndWhatIsNotUsedDoesNotCount) {
  rules_.saw_residual(kOld, 0, 90);
  rules_.saw_residual(kOld, 2, 1000);
  rules_.saw_residual(kOld, 77, 1000);
  EXPECT_EQ(why(kOld + 10 * kSecond), Trigger::kNothing);
}

TEST_F(PlannerReplan, ALossIsAnsweredAtOnceAndInHaste) {
  rules_.saw_down(3);
  const Decision decision = rules_.decide(kOld);
  EXPECT_EQ(decision.why, Trigger::kLost);
  EXPECT_EQ(decision.resource, 3U);
  EXPECT_EQ(decision.effort, Effort::kAtOnce);
  EXPECT_EQ(why(kOld + 10 * kSecond), Trigger::kNothing);
}

TEST_F(PlannerReplan, ALossOfWhatIsNotUsedIsNone) {
  rules_.saw_down(2);
  rules_.saw_down(77);
  EXPECT_EQ(why(kOld), Trigger::kNothing);
}

TEST_F(PlannerReplan, AHastyPlanIsFollowedByAGoodOne) {
  rules_.saw_down(3);
  ASSERT_EQ(why(kOld), Trigger::kLost);
  rules_.published(kOld, kRoundTrip, {100, 50, 0, 0}, true);
  EXPECT_EQ(why(kOld + kSecond - 1), Trigger::kNothing);
  const Decision decision = rules_.decide(kOld + kSecond);
  EXPECT_EQ(decision.why, Trigger::kRefine);
  EXPECT_EQ(decision.effort, Effort::kFull);
  EXPECT_EQ(why(kOld + 5 * kSecond), Trigger::kNothing);
}

TEST_F(PlannerReplan, MissesOfMoreThanOnePercent) {
  rules_.saw_misses(0.01);
  EXPECT_EQ(why(kOld), Trigger::kNothing);
  rules_.saw_misses(0.0101);
  EXPECT_EQ(why(kOld), Trigger::kMisses);
}

TEST_F(PlannerReplan, AGainOfFivePercent) {
  rules_.saw_candidate(10.49, 10);
  EXPECT_EQ(why(kOld), Trigger::kNothing);
  rules_.saw_candidate(10.5, 10);
  EXPECT_EQ(why(kOld), Trigger::kGain);
}

TEST_F(PlannerReplan, AtMostOneASecondAndNothingIsForgotten) {
  rules_.saw_misses(0.5);
  ASSERT_EQ(why(kOld), Trigger::kMisses);
  rules_.saw_down(0);
  EXPECT_EQ(why(kOld + kSecond - 1), Trigger::kNothing);
  EXPECT_EQ(why(kOld + kSecond), Trigger::kLost);
}

TEST_F(PlannerReplan, NeverWhileTheLastEpochIsYoungerThanTenRoundTrips) {
  rules_.saw_down(0);
  EXPECT_EQ(why(kOld - 1), Trigger::kNothing);
  EXPECT_EQ(why(kOld), Trigger::kLost);
  rules_.published(kOld + kSecond, kSecond, {100, 50, 0, 10});
  rules_.saw_down(1);
  EXPECT_EQ(why(kOld + 11 * kSecond - 1), Trigger::kNothing);
  EXPECT_EQ(why(kOld + 11 * kSecond), Trigger::kLost);
}

TEST_F(PlannerReplan, ALossComesBeforeWhatElseThereIs) {
  rules_.saw_misses(0.5);
  rules_.saw_residual(kOld - kSecond, 1, 1);
  rules_.saw_down(0);
  EXPECT_EQ(why(kOld), Trigger::kLost);
}

TEST_F(PlannerReplan, ANewPlanIsWorthAnEpochByFivePercentUnlessSomethingWasLost) {
  EXPECT_TRUE(rules_.is_worth(Trigger::kLost, 10, 1));
  EXPECT_FALSE(rules_.is_worth(Trigger::kDrift, 10, 10.4));
  EXPECT_TRUE(rules_.is_worth(Trigger::kDrift, 10, 10.5));
  EXPECT_FALSE(rules_.is_worth(Trigger::kNothing, 0, 10));
}

}  // namespace
}  // namespace tally::planner_test
