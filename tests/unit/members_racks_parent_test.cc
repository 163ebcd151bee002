// Boxes of a job of racks that are restarted, the parent's and those of racks: what goes on, and what begins anew.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "members_racks_support.h"

namespace tally::members_test {
namespace {

using members::JobPhase;
using testing::Each;
using testing::HasSubstr;

struct MembersRacksRestart : testing::Test, Racks {
  MembersRacksRestart() : Racks({2, 3}) {
    EXPECT_TRUE(form());
    pass(2 * kSecond);
    for (RackWorker& w : all) w.next = w.lowest = 100;
    epoch = all[0].epoch;
    record = all[0].last;
  }

  // All are in another epoch of the same generation, and nobody was told anything bad.
  void expect_adopted() {
    EXPECT_EQ(running(), 5U);
    expect_one_epoch();
    EXPECT_EQ(all[0].last, record);
    EXPECT_NE(all[0].epoch, epoch);
    EXPECT_THAT(told(), Each(""));
    // No worker meets an epoch twice.
    for (const RackWorker& w : all)
      EXPECT_EQ(std::set(w.epochs.begin(), w.epochs.end()).size(), w.epochs.size()) << w.number;
  }

  std::uint32_t epoch = 0;
  GenerationRecord record{};
};

TEST_F(MembersRacksRestart, TheParent) {
  forget(parent);
  pass(6 * kSecond);
  expect_adopted();
}

TEST_F(MembersRacksRestart, TheBoxOfARack) {
  forget(racks[0]);
  pass(6 * kSecond);
  expect_adopted();
}

TEST_F(MembersRacksRestart, TheBoxOfARackIsNewerToTheParentThanItWas) {
  const auto before = status_of_parent().ranks[0];
  forget(racks[0]);
  pass(6 * kSecond);
  EXPECT_EQ(status_of_parent().ranks[0].instance, before.instance);
  EXPECT_GT(status_of_parent().ranks[0].attempt, before.attempt);
}

TEST_F(MembersRacksRestart, ABoxWhoseClockWasSetBackIsNotHeardUntilThen) {
  auto late = box_of_a_rack();
  late.calendar -= 5 * kSecond;
  racks[0].options = late;
  forget(racks[0]);
  pass(3 * kSecond);
  EXPECT_EQ(status_of_parent().phase, JobPhase::kRunning);  // knows nothing of it yet
  EXPECT_LT(running(), 5U);
  pass(8 * kSecond);
  expect_adopted();
}

// A rack's box says no JOIN as long as all is well: its next one may come after years, and is still newer.
TEST_F(MembersRacksRestart, TheBoxOfARackAfterAnyTimeIsNewerThanItWas) {
  for (const TimeNs days : {25U, 40U, 1'000U}) {
    auto later = racks[0].options;
    later.calendar += days * 24 * 3'600 * kSecond;
    racks[0].options = later;
    forget(racks[0]);
    pass(6 * kSecond);
    expect_adopted();
    EXPECT_EQ(all[0].epochs.size(), all[4].epochs.size()) << days << " days";
    epoch = all[0].epoch;
  }
}

TEST_F(MembersRacksRestart, AllBoxes) {
  forget(parent);
  for (Bench& box : racks) forget(box);
  pass(8 * kSecond);
  expect_adopted();
}

TEST_F(MembersRacksRestart, TheDataPlaneOfARack) {
  racks[1].members->restart_data_plane(now());
  pass(4 * kSecond);
  expect_adopted();
}

TEST_F(MembersRacksRestart, TheDataPlaneOfTheParent) {
  parent.members->restart_data_plane(now());
  pass(4 * kSecond);
  expect_adopted();
}

TEST_F(MembersRacksRestart, TheBoxOfARackWhileThatOfAnotherForms) {
  parent.members->restart_data_plane(now());
  run();
  for (const std::size_t w : {0U, 1U}) say(all[w], all[w].join());
  forget(racks[0]);
  pass(6 * kSecond);
  expect_adopted();
}

TEST_F(MembersRacksRestart, TheBoxOfARackBeforeTheParentKnewThatItWasInTheEpoch) {
  parent.members->restart_data_plane(now());
  run();
  up = [](std::size_t rack, const Bytes& d) { return rack != 0 || type_of(d) != PacketType::kHeartbeat; };
  for (RackWorker& w : all) say(w, w.join());
  EXPECT_EQ(running(), 3U);
  const std::uint32_t second = all[4].epoch;
  forget(racks[0]);
  up = [](std::size_t, const Bytes&) { return true; };
  pass(3 * kSecond);
  EXPECT_EQ(all[0].epoch, second) << "none of its workers was ever told of it";
  expect_adopted();
}

TEST_F(MembersRacksRestart, AWorkerAndTheBoxOfItsRack) {
  forget(racks[1]);
  all[3].restart();
  // The parent holds the old rack until its lease has ended; then all begin anew.
  pass(5 * kSecond);
  EXPECT_EQ(all[0].told, "");
  EXPECT_EQ(all[3].told, "") << "who waits is not refused";
  pass(15 * kSecond);
  EXPECT_EQ(running(), 5U);
  expect_one_epoch();
  EXPECT_NE(all[0].last, record);
  EXPECT_THAT(all[0].told, HasSubstr("rack 1 at 10.9.1.1 was silent for"));
}

TEST_F(MembersRacksRestart, AWorkerThatDoesNotComeBackToItsBox) {
  forget(racks[1]);
  for (int i = 0; i < 15; ++i) {
    for (const std::size_t w : {0U, 1U, 2U, 4U})
      if (all[w].told.empty()) say(all[w], all[w].runs() ? all[w].heartbeat() : all[w].join());
    wait(kSecond);
  }
  EXPECT_THAT(all[4].told,
              HasSubstr("the job's generation cannot go on: rank 3 did not come back within 10.0 s"));
  EXPECT_THAT(all[0].told, HasSubstr("rack 1 at 10.9.1.1 was silent for"));
}

TEST_F(MembersRacksRestart, ARackThatDoesNotComeBackToTheParent) {
  forget(parent);
  for (int i = 0; i < 16; ++i) {
    for (const std::size_t w : {0U, 1U}) say(all[w], all[w].runs() ? all[w].heartbeat() : all[w].join());
    up = [](std::size_t rack, const Bytes&) { return rack == 0; };
    wait(kSecond);
  }
  EXPECT_THAT(all[0].told, HasSubstr("the job's generation cannot go on: rack 1 did not come back"));
}

TEST_F(MembersRacksRestart, ABoxOfARackThatIsStartedWhileTheParentIsAway) {
  forget(racks[0]);
  up = [](std::size_t, const Bytes&) { return false; };
  for (int i = 0; i < 14; ++i) {
    for (const std::size_t w : {0U, 1U})
      if (all[w].told.empty()) say(all[w], all[w].runs() ? all[w].heartbeat() : all[w].join());
    wait(kSecond);
  }
  EXPECT_THAT(all[0].told, HasSubstr("the parent at 10.9.0.9 was silent for 10."));
}

TEST_F(MembersRacksRestart, NewWorkersWaitForAParentAsLongAsTheyLike) {
  Racks waiting({2, 2});
  waiting.up = [](std::size_t, const Bytes&) { return false; };
  waiting.pass(60 * kSecond);
  EXPECT_THAT(waiting.told(), Each(""));
  waiting.up = [](std::size_t, const Bytes&) { return true; };
  waiting.pass(3 * kSecond);
  EXPECT_EQ(waiting.running(), 4U);
}

TEST_F(MembersRacksRestart, TheParentWhileARackLeaves) {
  for (const std::size_t w : {0U, 1U}) say(all[w], all[w].leave());
  for (const std::size_t w : {0U, 1U}) all[w].epoch = 0;
  wait(0);
  forget(parent);
  for (int i = 0; i < 15; ++i) {
    for (const std::size_t w : {2U, 3U, 4U})
      if (all[w].told.empty()) say(all[w], all[w].runs() ? all[w].heartbeat() : all[w].join());
    wait(kSecond);
  }
  // As of one box: who leaves takes it for its end.
  EXPECT_THAT(all[4].told, HasSubstr("rack 0 did not come back"));
}

TEST_F(MembersRacksRestart, TheBoxOfARackWhileAnotherRackHasLeft) {
  for (const std::size_t w : {0U, 1U}) say(all[w], all[w].leave());
  for (const std::size_t w : {0U, 1U}) all[w].epoch = 0;
  wait(0);
  EXPECT_EQ(status_of_parent().phase, JobPhase::kDraining);
  forget(racks[1]);
  for (int i = 0; i < 15; ++i) {
    for (const std::size_t w : {2U, 3U, 4U})
      if (all[w].told.empty()) say(all[w], all[w].runs() ? all[w].heartbeat() : all[w].join());
    wait(kSecond);
  }
  EXPECT_EQ(status_of_parent().phase, JobPhase::kEnded);
  EXPECT_THAT(all[4].told, HasSubstr("the job ended: every other rank has left"));
}

TEST_F(MembersRacksRestart, AnAbortThatCrossesARestartIsNotTheEndOfWhatComes) {
  up = [](std::size_t rack, const Bytes& d) { return rack != 0 || type_of(d) != PacketType::kAbort; };
  say(all[0], all[0].abort("x"));
  wait(0);
  EXPECT_EQ(running(), 3U);
  up = [](std::size_t, const Bytes&) { return true; };
  forget(racks[0]);  // the ABORT is forgotten
  pass(25 * kSecond);
  EXPECT_EQ(running(), 5U);
  expect_one_epoch();
  EXPECT_NE(all[0].last, record);
}

}  // namespace
}  // namespace tally::members_test
