// What silence does, and what counts as a sign of life.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

struct MembersLeases : testing::Test, Bench {
  JobId id = declare(config_of(3));
  std::vector<Peer> peers{Peer(0, 3), Peer(1, 3), Peer(2, 3)};
  MembersLeases() {
    EXPECT_TRUE(form(peers));
    for (const auto& p : peers) send(p, p.heartbeat());
  }
  std::vector<Sent> beat(std::initializer_list<std::size_t> ranks, int seconds) {
    std::vector<Sent> all;
    for (int i = 0; i < seconds; ++i) {
      const auto some = advance(kSecond);
      all.insert(all.end(), some.begin(), some.end());
      for (const auto r : ranks) {
        const auto echo = send(peers[r], peers[r].heartbeat());
        all.insert(all.end(), echo.begin(), echo.end());
      }
    }
    return all;
  }
};

TEST_F(MembersLeases, SilentRankAbortsTheJobByName) {
  auto sent = beat({0, 1}, 9);
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
  EXPECT_EQ(members->deadline(), now + kSecond);
  sent = advance(kSecond - 1);
  EXPECT_TRUE(sent.empty());
  sent = advance(1);
  const std::string text = "rank 2 at 10.0.0.2 was silent for 10.0 s (lease 10.0 s)";
  for (const auto& p : peers) EXPECT_EQ(only(sent, PacketType::kAbort, p).text(), text);
  EXPECT_EQ(status(id).phase, members::JobPhase::kAborted);
  EXPECT_EQ(status(id).reason, text);
  EXPECT_EQ(row(id), nullptr);
  EXPECT_EQ(members->deadline(), kNever);
}

TEST_F(MembersLeases, DataSeenByACoreKeepsARankAlive) {
  for (int i = 0; i < 30; ++i) {
    advance(kSecond);
    for (const auto& p : peers) saw(id, Rank{p.rank}, now);
  }
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
  EXPECT_EQ(status(id).live, 0b111U);
  advance(kSecond);
  send(peers[0], peers[0].heartbeat());
  EXPECT_EQ(status(id).ranks[0].last_seen, now) << "whichever is newer";
}

TEST_F(MembersLeases, EveryKindOfPacketOfAMemberIsASignOfLife) {
  now += 9 * kSecond;
  send(peers[0], peers[0].heartbeat());
  send(peers[1], peers[1].join());
  Peer forger = peers[2];
  forger.cookie ^= 1;
  send(forger, forger.heartbeat());  // a forged one is not
  EXPECT_EQ(status(id).ranks[0].last_seen, now);
  EXPECT_EQ(status(id).ranks[1].last_seen, now);
  advance(kSecond);
  EXPECT_THAT(status(id).reason, HasSubstr("rank 2 at 10.0.0.2"));
}

// Time decides, not the order in which the caller gets to things: the packet comes after the lease's end.
TEST_F(MembersLeases, LatePacketDoesNotSaveALease) {
  now += 10 * kSecond;  // nobody ticked yet
  const auto sent = send(peers[0], peers[0].heartbeat());
  EXPECT_EQ(count_of(sent, PacketType::kHeartbeat, peers[0]), 0U);
  EXPECT_EQ(count_of(sent, PacketType::kAbort, peers[0]), 2U);  // the job's, and the answer to the packet
  EXPECT_EQ(count_of(sent, PacketType::kAbort, peers[1]), 1U);
}

TEST_F(MembersLeases, SecondProcessTakesOverWhenTheLeaseHasEnded) {
  Peer anew = peers[2];
  anew.restart();
  beat({0, 1}, 9);
  EXPECT_EQ(only(send(anew, anew.join()), PacketType::kJoined, anew).text(),
            "rank 2 is held by a live process at 10.0.0.2");
  now += kSecond;
  const auto sent = send(anew, anew.join());
  EXPECT_EQ(count_of(sent, PacketType::kAbort, peers[0]), 1U);
  EXPECT_EQ(count_of(sent, PacketType::kAbort, peers[1]), 1U);
  EXPECT_EQ(only(sent, PacketType::kJoined, anew).joined().missing.host(), 0b011U);
}

TEST_F(MembersLeases, WhoeverLeftMayBeSilent) {
  send(peers[2], peers[2].leave());
  beat({0, 1}, 30);
  EXPECT_EQ(status(id).phase, members::JobPhase::kDraining);
  EXPECT_EQ(status(id).live, 0b011U);
}

TEST_F(MembersLeases, SilenceWhileDrainingCountsAsLeaving) {
  send(peers[0], peers[0].leave());
  auto sent = beat({1}, 10);
  EXPECT_EQ(status(id).phase, members::JobPhase::kDraining);
  EXPECT_TRUE(status(id).ranks[2].left);
  sent = send(peers[1], peers[1].leave());
  EXPECT_EQ(status(id).phase, members::JobPhase::kEnded);
  EXPECT_THAT(status(id).reason, HasSubstr("rank 2 at 10.0.0.2 was silent for 10.0 s"));
  EXPECT_EQ(count_of(sent, PacketType::kAbort, peers[1]), 0U);
  EXPECT_EQ(freed.size(), 1U);
}

TEST_F(MembersLeases, LastSilentRankEndsADrainingJob) {
  send(peers[0], peers[0].leave());
  send(peers[1], peers[1].leave());
  EXPECT_TRUE(advance(10 * kSecond).empty());
  EXPECT_EQ(status(id).phase, members::JobPhase::kEnded);
  EXPECT_EQ(row(id), nullptr);
}

TEST_F(MembersLeases, AllSilentRanksAreNamed) {
  beat({0}, 9);
  const auto sent = advance(kSecond);
  EXPECT_EQ(
      only(sent, PacketType::kAbort, peers[0]).text(),
      "rank 1 at 10.0.0.1 was silent for 10.0 s; rank 2 at 10.0.0.2 was silent for 10.0 s (lease 10.0 s)");
}

// A lease shorter than the second between two JOINs must not free the places of those who wait.
TEST(MembersShortLease, FormingIsMorePatientThanTheLease) {
  Bench bench;
  members::NativeConfig config = config_of(2);
  config.lease = members::kMinLease;
  const JobId id = bench.declare(config);
  Peer a(0);
  Peer b(1);
  for (int i = 0; i < 5; ++i) {
    bench.send(a, a.join());
    bench.advance(kSecond);
    EXPECT_EQ(bench.status(id).missing, 0b10U);
  }
  ASSERT_TRUE(bench.form({&b}));
  EXPECT_EQ(bench.status(id).live, 0b11U);  // a whole lease from the moment they are told
  const auto sent = bench.advance(members::kMinLease);
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kAborted);
  EXPECT_EQ(count_of(sent, PacketType::kAbort, b), 1U);
}

TEST_F(MembersLeases, ReplayedJoinOfAFormerProcessIsKnown) {
  Peer former = peers[2];
  const Bytes first = former.join();
  Peer other_place = former;
  other_place.binding.address = mapped({6, 6, 6, 6});
  EXPECT_EQ(send(former, first).size(), 1U);
  advance(10 * kSecond);
  for (auto& p : peers) p.restart();
  send(peers[2], peers[2].join());  // the rank's new process...
  advance(10 * kSecond);            // ...has gone again
  const auto before = members->status(now);
  EXPECT_TRUE(send(other_place, first).empty());
  EXPECT_EQ(members->status(now), before);
  EXPECT_EQ(members->counters().of(members::MembershipDrop::kOldAttempt), 1U);
  // The former process itself, if it lives after all, comes with a newer attempt.
  former.last = {};
  EXPECT_EQ(only(send(former, former.join()), PacketType::kJoined, former).status(), JoinStatus::kForming);
}

// A JOIN replayed from before control's own time cannot be told from a real one. It holds the rank's place
// for a lease, no longer.
struct MembersGhost : testing::Test, Bench {
  JobId id = declare(config_of(2));
  Peer ghost{1};
  Peer a{0};
  Peer b{1};
  MembersGhost() {
    ghost.instance = 66;
    ghost.binding.address = mapped({6, 6, 6, 6});
    send(ghost, ghost.join());
  }
};

TEST_F(MembersGhost, LosesItsPlaceInFormingAfterALease) {
  for (int i = 0; i < 10; ++i) {
    const Sent s = only(send(b, b.join()), PacketType::kJoined, b);
    EXPECT_EQ(s.status(), JoinStatus::kForming);  // nothing final while the ghost may be one
    EXPECT_EQ(s.joined().missing.host(), 0b11U);
    advance(kSecond);
  }
  EXPECT_EQ(only(send(b, b.join()), PacketType::kJoined, b).joined().missing.host(), 0b01U);
  EXPECT_TRUE(form({&a}));
}

TEST_F(MembersGhost, ThatCompletedTheFormingIsNamedAfterALease) {
  ASSERT_TRUE(form({&a}));
  std::vector<Sent> sent;
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(only(send(b, b.join()), PacketType::kJoined, b).status(), JoinStatus::kRefused);
    send(a, a.heartbeat());
    sent = advance(kSecond);
  }
  EXPECT_THAT(only(sent, PacketType::kAbort, a).text(), HasSubstr("rank 1 at 6.6.6.6 was silent"));
  a.last = {};
  EXPECT_TRUE(form({&a, &b}));
}

}  // namespace
}  // namespace tally::members_test
