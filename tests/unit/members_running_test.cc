// A running job: HEARTBEAT, repeated JOINs, ABORT, mismatch.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_running_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

TEST_F(MembersRunning, HeartbeatIsEchoedWithTheLiveRanks) {
  peers[1].next = 77;
  const Sent s = only(send(peers[1], peers[1].heartbeat()), PacketType::kHeartbeat, peers[1]);
  EXPECT_EQ(s.header.job.host(), peers[1].job_id);
  EXPECT_EQ(s.header.epoch.host(), peers[1].epoch);
  EXPECT_EQ(s.header.chunk.host(), 77U);
  EXPECT_EQ(s.header.cookie.host(), peers[1].result_cookie);
  EXPECT_EQ(s.header.contributors.host(), 0b111U);
  EXPECT_TRUE(peers[1].believes(s));
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
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

// Each repetition is heard, and proves nothing but that the JOINED before it was lost.
TEST_F(MembersRunning, JoinedOfANewGenerationMayBeLostAgainAndAgain) {
  Peer& p = peers[1];
  p.last = {};
  p.epoch = 0;
  for (int lost = 0; lost < 4; ++lost) {
    advance(200 * kMillisecond);
    const auto sent = send(p, p.join());
    ASSERT_EQ(only(sent, PacketType::kJoined, p).status(), JoinStatus::kRunning) << lost;
    ASSERT_EQ(sent.size(), 1U);
  }
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
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
  saw(id, Rank{2}, now);
  peers[2].last = {};
  const auto sent = send(peers[2], peers[2].join());
  EXPECT_EQ(count_of(sent, PacketType::kAbort, peers[0]), 1U);
  EXPECT_EQ(only(sent, PacketType::kJoined, peers[2]).status(), JoinStatus::kForming);
}

// Last-seen times of an earlier epoch prove nothing about this one.
TEST_F(MembersRunning, StaleLastSeenTimesProveNothing) {
  saw(id, Rank{2}, now - kMillisecond);
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
  EXPECT_EQ(members->counters().of(members::MembershipDrop::kAborted), 4U);
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

}  // namespace
}  // namespace tally::members_test
