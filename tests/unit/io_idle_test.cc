// What a data core does when nothing arrives.

#include <gtest/gtest.h>

#include "core_idle.h"

namespace tally {
namespace {

using Action = CoreIdle::Action;

TEST(CoreIdle, PollingNeverRests) {
  CoreIdle idle(IdlePolicy::kPoll);
  for (TimeNs now = 0; now < kSecond; now += kMillisecond)
    EXPECT_EQ(idle.after_turn(0, now).action, Action::kPoll);
}

TEST(CoreIdle, SilenceLeadsFromPollingOverYieldingToGrowingSleeps) {
  CoreIdle idle(IdlePolicy::kAdaptive);
  TimeNs now = 5 * kSecond;
  EXPECT_EQ(idle.after_turn(1, now).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, now).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, now + CoreIdle::kPollFor - 1).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, now + CoreIdle::kPollFor).action, Action::kYield);
  EXPECT_EQ(idle.after_turn(0, now + CoreIdle::kYieldFor - 1).action, Action::kYield);
  TimeNs last = 0;
  for (now += CoreIdle::kYieldFor; now < 6 * kSecond;) {
    const CoreIdle::Step step = idle.after_turn(0, now);
    ASSERT_EQ(step.action, Action::kSleep);
    ASSERT_GE(step.sleep, last);
    ASSERT_GE(step.sleep, CoreIdle::kYieldFor / CoreIdle::kSilencePerSleep);
    ASSERT_LE(step.sleep, kLongestSleep);
    last = step.sleep;
    now += step.sleep;
  }
  EXPECT_EQ(last, kLongestSleep);
}

// A port that takes nothing may take something at any time; and it may be down for hours.
TEST(CoreIdle, WithABacklogSleepsAreShort) {
  CoreIdle idle(IdlePolicy::kAdaptive);
  EXPECT_EQ(idle.after_turn(0, 0, true).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, CoreIdle::kPollFor, true).action, Action::kYield);
  for (const TimeNs now : {CoreIdle::kYieldFor, 10 * kMillisecond, 3'600 * kSecond}) {
    const CoreIdle::Step step = idle.after_turn(0, now, true);
    EXPECT_EQ(step.action, Action::kSleep);
    EXPECT_GE(step.sleep, CoreIdle::kYieldFor / CoreIdle::kSilencePerSleep);
    EXPECT_LE(step.sleep, CoreIdle::kLongestSleepWithBacklog);
  }
  EXPECT_EQ(idle.after_turn(0, 3'600 * kSecond).sleep, kLongestSleep) << "the backlog is gone";
}

// A frame that waits on purpose leaves when it should.
TEST(CoreIdle, NoSleepIsLongerThanToTheNextFrameThatWaits) {
  CoreIdle idle(IdlePolicy::kAdaptive);
  EXPECT_EQ(idle.after_turn(0, 0, false, 5).action, Action::kPoll);
  const TimeNs now = kSecond;
  const CoreIdle::Step step = idle.after_turn(0, now, false, now + 7);
  EXPECT_EQ(step.action, Action::kSleep);
  EXPECT_EQ(step.sleep, 7U);
  EXPECT_EQ(idle.after_turn(0, now, false, now).action, Action::kPoll) << "it is due";
  EXPECT_EQ(idle.after_turn(0, now, false, now - 5).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, now, true, now + kSecond).sleep, CoreIdle::kLongestSleepWithBacklog);
  EXPECT_EQ(idle.after_turn(0, now, false, now + kSecond).sleep, kLongestSleep);
}

TEST(CoreIdle, TrafficEndsTheSilence) {
  CoreIdle idle(IdlePolicy::kAdaptive);
  EXPECT_EQ(idle.after_turn(0, 0).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, kSecond).action, Action::kSleep);
  EXPECT_EQ(idle.after_turn(3, kSecond).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, 2 * kSecond).action, Action::kPoll) << "the silence begins here";
}

}  // namespace
}  // namespace tally
