// A running job: HEARTBEAT, repeated JOINs, ABORT, mismatch, LEAVE, withdrawal.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

struct MembersRunning : testing::Test, Bench {
  JobId id = declare(config_of(3));
  std::vector<Peer> peers{Peer(0, 3), Peer(1, 3), Peer(2, 3)};
  MembersRunning() { EXPECT_TRUE(form(peers)); }

  // Each gets one ABORT that it would accept, with this text.
  void expect_aborted(const std::vector<Sent>& sent, std::initializer_list<int> ranks,
                      const std::string& text) {
    std::size_t aborts = 0;
    for (const auto& s : sent) aborts += s.type() == PacketType::kAbort ? 1 : 0;
    EXPECT_EQ(aborts, ranks.size());
    for (const int r : ranks) {
      const Peer& p = peers[static_cast<std::size_t>(r)];
      const Sent s = only(sent, PacketType::kAbort, p);
      EXPECT_EQ(s.header.job.host(), p.job_id);
      EXPECT_EQ(s.header.epoch.host(), p.epoch);
      EXPECT_EQ(s.header.cookie.host(), p.result_cookie);
      EXPECT_EQ(s.text(), text);
    }
    EXPECT_EQ(status(id).phase, JobPhase::kAborted);
    EXPECT_EQ(status(id).reason, text);
    EXPECT_EQ(row(id), nullptr);
    EXPECT_EQ(status(id).slots.count, 0U);
  }
  void everyone_beats() {
    for (const auto& p : peers) EXPECT_EQ(send(p, p.heartbeat()).size(), 1U);
  }
};

TEST_F(MembersRunning, HeartbeatIsEchoedWithTheLiveRanks) {
  peers[1].next = 77;
  const Sent s = only(send(peers[1], peers[1].heartbeat()), PacketType::kHeartbeat, peers[1]);
  EXPECT_EQ(s.header.job.host(), peers[1].job_id);
  EXPECT_EQ(s.header.epoch.host(), peers[1].epoch);
  EXPECT_EQ(s.header.chunk.host(), 77U);
  EXPECT_EQ(s.header.cookie.host(), peers[1].result_cookie);
  EXPECT_EQ(s.header.contributors.host(), 0b111U);
  EXPECT_TRUE(s.payload.empty());
  EXPECT_EQ(raw(status(id).ranks[1].next), 77U);
}

TEST_F(MembersRunning, LostJoinedOfANewGenerationIsSentAgain) {
  Peer& p = peers[1];
  const Peer told = p;
  p.last = {};  // it never got the JOINED
  p.epoch = 0;
  const auto sent = send(p, p.join());
  EXPECT_EQ(sent.size(), 1U);
  take(p, sent);
  EXPECT_EQ(p.epoch, told.epoch);
  EXPECT_EQ(p.cookie, told.cookie);
  EXPECT_EQ(p.last, told.last);
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
}

TEST_F(MembersRunning, JoinThatReportsThisGenerationIsAnsweredInTheSameEpoch) {
  everyone_beats();
  const std::uint32_t epoch = peers[1].epoch;
  const std::uint64_t before = version;
  const auto sent = send(peers[1], peers[1].join());
  EXPECT_EQ(only(sent, PacketType::kJoined, peers[1]).header.epoch.host(), epoch);
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_EQ(version, before);
}

TEST_F(MembersRunning, MovedMemberIsPublishedBeforeItIsAnswered) {
  cores_wait = true;
  Peer& p = peers[1];
  p.binding.udp_port = 1234;
  EXPECT_TRUE(send(p, p.join()).empty());
  EXPECT_EQ(row(id)->ranks[1].binding, p.binding);
  EXPECT_EQ(raw(row(id)->epoch), p.epoch);
  EXPECT_TRUE(send(p, p.join()).empty());  // its nonce is the one that counts
  members->quiesced(version, now);
  EXPECT_EQ(only(answers(), PacketType::kJoined, p).joined().nonce.host(), p.nonce);
  EXPECT_EQ(send(p, p.heartbeat()).size(), 1U);
}

// A multicast result is one frame for each port, VLAN and IP version that has a member.
TEST(MembersLeaders, OneRankLeadsEachPortVlanAndIpVersion) {
  Bench bench;
  const JobId id = bench.declare(config_of(6));
  std::vector<Peer> peers;
  for (std::uint16_t r = 0; r < 6; ++r) peers.emplace_back(r, std::uint16_t{6});
  for (auto& p : peers) p.binding.port = PortIndex{3};
  peers[2].binding.port = PortIndex{4};
  peers[3].binding.vlan = 7;
  peers[5].binding.vlan = 7;
  peers[4].binding.address = {0xfd, 0x01};
  ASSERT_TRUE(bench.form(peers));
  ASSERT_NE(bench.row(id), nullptr);
  EXPECT_EQ(bench.row(id)->leaders, 0b011101U);
}

TEST_F(MembersRunning, OldJoinReplayedIsIgnored) {
  const Bytes old = peers[1].join();
  send(peers[1], peers[1].join());
  const auto before = members->status(now);
  Peer elsewhere = peers[1];
  elsewhere.binding.address = mapped({6, 6, 6, 6});
  EXPECT_TRUE(send(elsewhere, old).empty());
  EXPECT_EQ(members->status(now), before);
}

TEST_F(MembersRunning, JoinOfADeadProcessReplayedIsRefusedToItsSource) {
  Peer dead(1, 3);
  dead.instance = 99;
  dead.binding.address = mapped({6, 6, 6, 6});
  const auto before = members->status(now);
  const auto sent = send(dead, dead.join());
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_EQ(only(sent, PacketType::kJoined, dead).status(), JoinStatus::kRefused);
  EXPECT_EQ(members->status(now), before);
}

TEST_F(MembersRunning, MemberThatLostItsMembershipEndsTheGeneration) {
  everyone_beats();
  const std::uint32_t old_epoch = peers[0].epoch;
  const Generation generation = status(id).generation;
  Peer lost = peers[2];
  lost.last = {};
  lost.lowest = lost.next = 0;
  const auto sent = send(lost, lost.join());
  const std::string text = "rank 2 lost its membership and joined anew";
  for (const int r : {0, 1}) {
    const Sent s = only(sent, PacketType::kAbort, peers[static_cast<std::size_t>(r)]);
    EXPECT_EQ(s.header.epoch.host(), old_epoch);
    EXPECT_EQ(s.text(), text);
  }
  const Sent s = only(sent, PacketType::kJoined, lost);
  EXPECT_EQ(s.status(), JoinStatus::kForming);
  EXPECT_EQ(s.joined().missing.host(), 0b011U);
  EXPECT_EQ(sent.size(), 3U);
  EXPECT_EQ(row(id), nullptr);
  // The programs of the others join again.
  for (auto& p : peers) p.last = {};
  peers[2] = lost;
  ASSERT_TRUE(form({&peers[0], &peers[1]}));
  EXPECT_NE(status(id).generation, generation);
  EXPECT_NE(raw(status(id).epoch), old_epoch);
}

// The same without a heartbeat in between: what the data cores saw is evidence enough.
TEST_F(MembersRunning, DataOfAMemberProvesThatItKnewTheEpoch) {
  now += kMillisecond;
  members->seen(id, Rank{2}, now);
  peers[2].last = {};
  const auto sent = send(peers[2], peers[2].join());
  EXPECT_EQ(count_of(sent, PacketType::kAbort, peers[0]), 1U);
  EXPECT_EQ(only(sent, PacketType::kJoined, peers[2]).status(), JoinStatus::kForming);
}

// Last-seen times of an earlier epoch prove nothing about this one.
TEST_F(MembersRunning, StaleLastSeenTimesProveNothing) {
  members->seen(id, Rank{2}, now - kMillisecond);
  peers[2].last = {};
  EXPECT_EQ(only(send(peers[2], peers[2].join()), PacketType::kJoined, peers[2]).status(),
            JoinStatus::kRunning);
}

TEST_F(MembersRunning, AbortOfAWorkerReachesEveryoneWithItsName) {
  everyone_beats();
  const auto sent = send(peers[1], peers[1].abort("NaN at offset 17\n"));
  expect_aborted(sent, {0, 1, 2}, "rank 1: NaN at offset 17 ");
  EXPECT_EQ(sent.size(), 3U);
}

TEST_F(MembersRunning, AbortTextIsBounded) {
  everyone_beats();
  const std::string said(kMaxTextBytes - 1, 'x');
  const auto sent = send(peers[1], peers[1].abort(said + "\xC3"));
  EXPECT_EQ(only(sent, PacketType::kAbort, peers[0]).text().size(), kMaxTextBytes);
}

TEST_F(MembersRunning, AbortWithoutTextSaysSo) {
  everyone_beats();
  expect_aborted(send(peers[1], peers[1].abort("")), {0, 1, 2}, "rank 1: gave no reason");
}

// A member whose JOINED was lost would not accept the ABORT: it gets the text as the answer to its JOIN too.
TEST_F(MembersRunning, AbortReachesAMemberThatWasNotToldYet) {
  send(peers[0], peers[0].heartbeat());
  send(peers[1], peers[1].heartbeat());
  const auto sent = send(peers[1], peers[1].abort("enough"));
  EXPECT_EQ(count_of(sent, PacketType::kJoined, peers[0]), 0U);
  const Sent s = only(sent, PacketType::kJoined, peers[2]);
  EXPECT_EQ(s.status(), JoinStatus::kRefused);
  EXPECT_EQ(s.joined().nonce.host(), peers[2].nonce);
  EXPECT_EQ(s.text(), "rank 1: enough");
}

TEST_F(MembersRunning, WhoeverMissedTheAbortGetsItAgain) {
  everyone_beats();
  send(peers[1], peers[1].abort("enough"));
  for (const auto& packet : {peers[2].heartbeat(), peers[2].leave(), peers[2].abort("late")}) {
    const auto sent = send(peers[2], packet);
    EXPECT_EQ(sent.size(), 1U);
    expect_aborted(sent, {2}, "rank 1: enough");
  }
  const auto sent = send(peers[2], peers[2].join());
  expect_aborted(sent, {2}, "rank 1: enough");
  EXPECT_EQ(only(sent, PacketType::kJoined, peers[2]).status(), JoinStatus::kRefused);
  EXPECT_EQ(members->counters().of(MembershipDrop::kAborted), 4U);
  EXPECT_TRUE(send(peers[2], peers[2].join_again()).empty());  // and a replay of that JOIN gets nothing
}

TEST_F(MembersRunning, UnknownProcessAskingAboutAnAbortIsRateLimited) {
  everyone_beats();
  send(peers[1], peers[1].abort("enough"));
  Peer replayed = peers[2];
  replayed.instance = 4711;
  std::size_t sent = 0;
  for (int i = 0; i < 100; ++i) sent += send(replayed, replayed.join()).size();
  EXPECT_EQ(sent, 20U);  // ten times ABORT and refusal
  EXPECT_EQ(send(peers[2], peers[2].join()).size(), 2U);
}

TEST_F(MembersRunning, ForgedQuestionAboutAnAbortGetsNoSecret) {
  everyone_beats();
  send(peers[1], peers[1].abort("enough"));
  Peer forger = peers[2];
  forger.cookie ^= 1;
  EXPECT_EQ(only(send(forger, forger.heartbeat()), PacketType::kReject, forger).header.cookie.host(), 0U);
  forger = peers[2];
  forger.binding.address = mapped({6, 6, 6, 6});
  EXPECT_EQ(send(forger, forger.heartbeat()).at(0).type(), PacketType::kReject);
}

// The dead never come back into forming: a member that still reports the aborted generation is told, while
// those that joined anew wait for it.
TEST_F(MembersRunning, AbortedGenerationIsNeverAdoptedAgain) {
  everyone_beats();
  const Generation generation = status(id).generation;
  send(peers[1], peers[1].abort("enough"));
  for (const int r : {0, 1}) {
    Peer& p = peers[static_cast<std::size_t>(r)];
    p.last = {};
    EXPECT_EQ(only(send(p, p.join()), PacketType::kJoined, p).status(), JoinStatus::kForming);
  }
  EXPECT_EQ(only(send(peers[2], peers[2].join()), PacketType::kAbort, peers[2]).text(), "rank 1: enough");
  EXPECT_EQ(status(id).missing, 0b100U);
  peers[2].last = {};
  ASSERT_TRUE(form({&peers[2]}));
  EXPECT_NE(status(id).generation, generation);
  EXPECT_EQ(status(id).reason, "");
}

TEST_F(MembersRunning, MismatchNamesBothSidesAndSizes) {
  everyone_beats();
  members->report_mismatch(id, Epoch{peers[0].epoch ^ 1U}, Rank{2}, 0b011, 352, 704, 1056, 1408, now);
  EXPECT_TRUE(settle().empty());
  members->report_mismatch(id, Epoch{peers[0].epoch}, Rank{2}, 0b011, 352, 704, 1056, 1408, now);
  expect_aborted(settle(), {0, 1, 2},
                 "the ranks issued different operations: rank 2 sent 352 elements of an operation of 1056, "
                 "ranks 0 and 1 704 elements of an operation of 1408");
  members->report_mismatch(id, Epoch{peers[0].epoch}, Rank{2}, 0b011, 352, 704, 1056, 1408, now);
  EXPECT_TRUE(settle().empty());
}

TEST_F(MembersRunning, MismatchOfTypesOnly) {
  everyone_beats();
  members->report_mismatch(id, Epoch{peers[0].epoch}, Rank{0}, 0b010, 352, 352, 352, 352, now);
  EXPECT_THAT(status(id).reason,
              HasSubstr("rank 1 352 elements of an operation of 352 with another element type"));
}

TEST_F(MembersRunning, LeavesDrainAndEndTheJob) {
  everyone_beats();
  Sent echo = only(send(peers[0], peers[0].leave()), PacketType::kLeave, peers[0]);
  EXPECT_EQ(echo.header.cookie.host(), peers[0].result_cookie);
  EXPECT_EQ(echo.header.contributors.host(), 0b110U);
  EXPECT_EQ(status(id).phase, JobPhase::kDraining);
  ASSERT_NE(row(id), nullptr);
  EXPECT_EQ(row(id)->members, 0b111U);  // entries and bindings stay
  EXPECT_EQ(only(send(peers[0], peers[0].leave()), PacketType::kLeave, peers[0]).header.epoch.host(),
            peers[0].epoch);
  send(peers[1], peers[1].leave());
  EXPECT_NE(row(id), nullptr);
  const auto sent = send(peers[2], peers[2].leave());
  EXPECT_EQ(only(sent, PacketType::kLeave, peers[2]).header.cookie.host(), peers[2].result_cookie);
  EXPECT_EQ(sent.size(), 1U);
  EXPECT_EQ(status(id).phase, JobPhase::kEnded);
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
  EXPECT_EQ(only(send(forger, forger.leave()), PacketType::kReject, forger).header.slot.host(), 1U);
  EXPECT_EQ(only(send(peers[0], peers[0].heartbeat()), PacketType::kReject, peers[0]).header.slot.host(), 1U);
  ASSERT_TRUE(members->withdraw("resnet"));
  EXPECT_EQ(only(send(peers[0], peers[0].leave()), PacketType::kReject, peers[0]).header.slot.host(), 2U);
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
  EXPECT_EQ(status(id).phase, JobPhase::kEnded);
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
  EXPECT_EQ(members->counters().of(MembershipDrop::kWait), 1U);
  EXPECT_EQ(status(id).phase, JobPhase::kDraining);
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
  EXPECT_EQ(status(id).phase, JobPhase::kDraining);
  send(peers[2], peers[2].leave());
  EXPECT_EQ(status(id).phase, JobPhase::kEnded);
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
  EXPECT_EQ(only(send(peers[0], peers[0].heartbeat()), PacketType::kReject, peers[0]).header.slot.host(), 2U);
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
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
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
  EXPECT_EQ(only(send(old, old.heartbeat()), PacketType::kReject, old).header.slot.host(), 1U);
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
}

}  // namespace
}  // namespace tally::members_test
