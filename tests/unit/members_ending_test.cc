// How a running job ends: LEAVE, withdrawal, a box that closes.

#include <gtest/gtest.h>

#include "members_running_support.h"

namespace tally::members_test {
namespace {

TEST_F(MembersRunning, LeavesDrainAndEndTheJob) {
  everyone_beats();
  Sent echo = only(send(peers[0], peers[0].leave()), PacketType::kLeave, peers[0]);
  EXPECT_EQ(echo.header.cookie.host(), peers[0].result_cookie);
  EXPECT_EQ(echo.header.contributors.host(), 0b110U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kDraining);
  ASSERT_NE(row(id), nullptr);
  EXPECT_EQ(row(id)->members, 0b111U);  // entries and bindings stay
  EXPECT_EQ(only(send(peers[0], peers[0].leave()), PacketType::kLeave, peers[0]).header.epoch.host(),
            peers[0].epoch);
  send(peers[1], peers[1].leave());
  EXPECT_NE(row(id), nullptr);
  const auto sent = send(peers[2], peers[2].leave());
  EXPECT_EQ(only(sent, PacketType::kLeave, peers[2]).header.cookie.host(), peers[2].result_cookie);
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kEnded);
  EXPECT_EQ(row(id), nullptr);
  ASSERT_EQ(freed.size(), 1U);
  EXPECT_EQ(freed[0].job, id);
  EXPECT_EQ(freed[0].members, 0b111U);
}

TEST_F(MembersRunning, LeaveRepeatedAfterTheEndIsEchoedIfItIsTheMembers) {
  for (const auto& p : peers) send(p, p.leave());
  const Sent echo = only(send(peers[0], peers[0].leave()), PacketType::kLeave, peers[0]);
  EXPECT_EQ(echo.header.cookie.host(), peers[0].result_cookie);
  Peer forger = peers[0];
  forger.cookie ^= 1;
  EXPECT_TRUE(send(forger, forger.leave()).empty());
  EXPECT_EQ(only(send(peers[0], peers[0].heartbeat()), PacketType::kReject, peers[0]).header.slot.host(), 2U);
  ASSERT_TRUE(members->withdraw("resnet"));
  EXPECT_TRUE(send(peers[0], peers[0].leave()).empty());
}

TEST_F(MembersRunning, EndedJobFormsAgain) {
  for (const auto& p : peers) send(p, p.leave());
  const std::uint32_t epoch = peers[0].epoch;
  for (auto& p : peers) p.restart();
  ASSERT_TRUE(form(peers));
  EXPECT_NE(peers[0].epoch, epoch);
  EXPECT_EQ(peers[0].job_id, raw(id));
}

TEST_F(MembersRunning, MemberThatSleptThroughTheEndIsToldSo) {
  everyone_beats();
  send(peers[0], peers[0].leave());
  send(peers[1], peers[1].leave());
  advance(10 * kSecond);
  EXPECT_EQ(status(id).phase, members::JobPhase::kEnded);
  const Sent s = only(send(peers[2], peers[2].join()), PacketType::kJoined, peers[2]);
  EXPECT_EQ(s.status(), JoinStatus::kRefused);
  EXPECT_EQ(s.text(), "the job ended: every other rank has left");
}

TEST_F(MembersRunning, NewProcessWaitsUntilTheOldJobHasDrained) {
  everyone_beats();
  send(peers[0], peers[0].leave());
  Peer next = peers[0];
  next.restart();
  Sent s = only(send(next, next.join()), PacketType::kJoined, next);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(s.joined().missing.host(), 0b111U);
  EXPECT_EQ(members->counters().of(members::MembershipDrop::kWait), 1U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kDraining);
  send(peers[1], peers[1].leave());
  send(peers[2], peers[2].leave());
  s = only(send(next, next.join()), PacketType::kJoined, next);
  EXPECT_EQ(s.joined().missing.host(), 0b110U);
}

TEST_F(MembersRunning, AbortWhileDrainingSparesThoseWhoLeft) {
  everyone_beats();
  send(peers[0], peers[0].leave());
  const auto sent = send(peers[1], peers[1].abort("enough"));
  expect_aborted(sent, {1, 2}, "rank 1: enough");
}

TEST_F(MembersRunning, MemberThatJoinsAnewWhileDrainingCountsAsLeft) {
  everyone_beats();
  send(peers[0], peers[0].leave());
  Peer anew = peers[1];
  anew.last = {};
  const auto sent = send(anew, anew.join());
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_EQ(only(sent, PacketType::kJoined, anew).status(), JoinStatus::kForming);
  EXPECT_EQ(status(id).phase, members::JobPhase::kDraining);
  send(peers[2], peers[2].leave());
  EXPECT_EQ(status(id).phase, members::JobPhase::kEnded);
}

TEST_F(MembersRunning, WithdrawalTellsEveryoneAndFreesTheLines) {
  everyone_beats();
  ASSERT_TRUE(members->withdraw("resnet"));
  const auto sent = settle();
  for (const auto& p : peers) {
    EXPECT_EQ(only(sent, PacketType::kAbort, p).text(), "the job was withdrawn from the box");
  }
  EXPECT_EQ(row(id), nullptr);
  EXPECT_EQ(freed.size(), 1U);
  EXPECT_FALSE(members->status(id, now));
  EXPECT_TRUE(send(peers[0], peers[0].heartbeat()).empty())
      << "nobody here has the key that it would believe";
  EXPECT_EQ(only(send(peers[0], peers[0].join()), PacketType::kJoined, peers[0]).status(),
            JoinStatus::kRefused);
}

TEST_F(MembersRunning, WithdrawalRefusesThoseWhoWait) {
  declare(config_of(2, "vgg"));
  Peer p(0);
  p.job = "vgg";
  send(p, p.join());
  ASSERT_TRUE(members->withdraw("vgg"));
  const Sent s = only(settle(), PacketType::kJoined, p);
  EXPECT_EQ(s.status(), JoinStatus::kRefused);
  EXPECT_EQ(s.text(), "the job was withdrawn from the box");
}

TEST_F(MembersRunning, WithdrawalGivesTheReasonItWasGiven) {
  everyone_beats();
  ASSERT_TRUE(members->withdraw("resnet", "maintenance at noon"));
  const auto sent = settle();
  for (const auto& p : peers) EXPECT_EQ(only(sent, PacketType::kAbort, p).text(), "maintenance at noon");
}

TEST_F(MembersRunning, AClosedBoxAdmitsNothingNewAndKeepsWhatRuns) {
  declare(config_of(2, "vgg"));
  Peer waiting(0);
  waiting.job = "vgg";
  send(waiting, waiting.join());
  EXPECT_EQ(members->close("the box is shutting down"), 1U);
  Sent s = only(settle(), PacketType::kJoined, waiting);
  EXPECT_EQ(s.status(), JoinStatus::kRefused);
  EXPECT_EQ(s.text(), "the box is shutting down");
  waiting.restart();
  EXPECT_EQ(only(send(waiting, waiting.join()), PacketType::kJoined, waiting).text(),
            "the box is shutting down");
  everyone_beats();
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
  for (const auto& p : peers) send(p, p.leave());
  EXPECT_EQ(members->close("the box is shutting down"), 0U);
  EXPECT_FALSE(members->status(id, now));
}

// The id may come back, the epoch does not: a packet of the old job finds a foreign epoch.
TEST_F(MembersRunning, ReusedIdIsGuardedByTheEpoch) {
  const Peer old = peers[0];
  ASSERT_TRUE(members->withdraw("resnet"));
  settle();
  JobId again{};
  for (std::uint32_t i = 0; i < kMaxJobs; ++i) {
    const std::string name = "job" + std::to_string(i);
    again = *members->declare(config_of(3, name));
    if (again == id) {
      for (auto& p : peers) p.restart();
      for (auto& p : peers) p.job = name;
      break;
    }
    ASSERT_TRUE(members->withdraw(name));
  }
  ASSERT_EQ(again, id);
  ASSERT_TRUE(form(peers));
  EXPECT_NE(peers[0].epoch, old.epoch);
  EXPECT_TRUE(send(old, old.heartbeat()).empty());
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

}  // namespace
}  // namespace tally::members_test
