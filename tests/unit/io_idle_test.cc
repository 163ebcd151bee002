// What a data core does when nothing arrives.

#include <gtest/gtest.h>

#include "io/core_time.h"

namespace tally {
namespace {

using Action = io::CoreIdle::Action;

TEST(CoreIdle, PollingNeverRests) {
  io::CoreIdle idle(io::IdlePolicy::kPoll);
  for (TimeNs now = 0; now < kSecond; now += kMillisecond)
    EXPECT_EQ(idle.after_turn(0, now).action, Action::kPoll);
}

TEST(CoreIdle, SilenceLeadsFromPollingOverYieldingToGrowingSleeps) {
  io::CoreIdle idle(io::IdlePolicy::kAdaptive);
  TimeNs now = 5 * kSecond;
  EXPECT_EQ(idle.after_turn(1, now).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, now).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, now + io::CoreIdle::kPollFor - 1).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, now + io::CoreIdle::kPollFor).action, Action::kYield);
  EXPECT_EQ(idle.after_turn(0, now + io::CoreIdle::kYieldFor - 1).action, Action::kYield);
  TimeNs last = 0;
  for (now += io::CoreIdle::kYieldFor; now < 6 * kSecond;) {
    const io::CoreIdle::Step step = idle.after_turn(0, now);
    ASSERT_EQ(step.action, Action::kSleep);
    ASSERT_GE(step.sleep, last);
    ASSERT_GE(step.sleep, io::CoreIdle::kYieldFor / io::CoreIdle::kSilencePerSleep);
    ASSERT_LE(step.sleep, io::kLongestSleep);
    last = step.sleep;
    now += step.sleep;
  }
  EXPECT_EQ(last, io::kLongestSleep);
}

// A port that takes nothing may take something at any time; and it may be down for hours.
TEST(CoreIdle, WithABacklogSleepsAreShort) {
  io::CoreIdle idle(io::IdlePolicy::kAdaptive);
  EXPECT_EQ(idle.after_turn(0, 0, true).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, io::CoreIdle::kPollFor, true).action, Action::kYield);
  for (const TimeNs now : {io::CoreIdle::kYieldFor, 10 * kMillisecond, 3'600 * kSecond}) {
    const io::CoreIdle::Step step = idle.after_turn(0, now, true);
    EXPECT_EQ(step.action, Action::kSleep);
    EXPECT_GE(step.sleep, io::CoreIdle::kYieldFor / io::CoreIdle::kSilencePerSleep);
    EXPECT_LE(step.sleep, io::CoreIdle::kLongestSleepWithBacklog);
  }
  EXPECT_EQ(idle.after_turn(0, 3'600 * kSecond).sleep, io::kLongestSleep) << "the backlog is gone";
}

// A frame that waits on purpose leaves when it should.
TEST(CoreIdle, NoSleepIsLongerThanToTheNextFrameThatWaits) {
  io::CoreIdle idle(io::IdlePolicy::kAdaptive);
  EXPECT_EQ(idle.after_turn(0, 0, false, 5).action, Action::kPoll);
  const TimeNs now = kSecond;
  const io::CoreIdle::Step step = idle.after_turn(0, now, false, now + 7);
  EXPECT_EQ(step.action, Action::kSleep);
  EXPECT_EQ(step.sleep, 7U);
  EXPECT_EQ(idle.after_turn(0, now, false, now).action, Action::kPoll) << "it is due";
  EXPECT_EQ(idle.after_turn(0, now, false, now - 5).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, now, true, now + kSecond).sleep, io::CoreIdle::kLongestSleepWithBacklog);
  EXPECT_EQ(idle.after_turn(0, now, false, now + kSecond).sleep, io::kLongestSleep);
}

TEST(CoreIdle, TrafficEndsTheSilence) {
  io::CoreIdle idle(io::IdlePolicy::kAdaptive);
  EXPECT_EQ(idle.after_turn(0, 0).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, kSecond).action, Action::kSleep);
  EXPECT_EQ(idle.after_turn(3, kSecond).action, Action::kPoll);
  EXPECT_EQ(idle.after_turn(0, 2 * kSecond).action, Action::kPoll) << "the silence begins here";
}

}  // namespace
}  // namespace tally
