// External servers that come back: restarted, moved, called back with their job, or after the box lost
// everything (docs/protocol_server.md, 5.6).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_server_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

TEST_F(MembersServer, ARestartedServerTakesItsPlaceOverAtOnceInTheSameEpoch) {
  ASSERT_TRUE(form(all()));
  const std::uint64_t publications = version;
  const std::uint32_t epoch = servers[0].epoch;
  servers[0].restart();
  const auto sent = send(servers[0], servers[0].join());
  EXPECT_EQ(status_for(sent, servers[0]), JoinStatus::kRunning);
  EXPECT_EQ(sent.size(), 1U) << "nobody else hears of it";
  take(servers[0], sent);
  EXPECT_EQ(servers[0].epoch, epoch);
  EXPECT_EQ(Cookie{servers[0].cookie}, row(id)->server_ranks[0].cookie);
  EXPECT_EQ(version, publications) << "the cores know it already";
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
  EXPECT_EQ(status(id).servers[0].instance, servers[0].instance);
  only(send(servers[0], servers[0].heartbeat()), PacketType::kHeartbeat, servers[0]);
}

TEST_F(MembersServer, ReplayedJoinOfAFormerServerIsDropped) {
  ASSERT_TRUE(form(all()));
  const Bytes old = servers[0].join_again();
  servers[0].restart();
  take(servers[0], send(servers[0], servers[0].join()));
  EXPECT_TRUE(send(servers[0], old).empty());
  EXPECT_EQ(dropped(members::MembershipDrop::kOldAttempt), 1U);
  EXPECT_EQ(status(id).servers[0].instance, servers[0].instance);
}

// Same epoch, cookie and binding, and the key is the job's: the process is told apart by its instance.
TEST_F(MembersServer, ReplayedHeartbeatOfAFormerServerIsDropped) {
  ASSERT_TRUE(form(all()));
  const Bytes old = servers[0].heartbeat();
  servers[0].restart();
  take(servers[0], send(servers[0], servers[0].join()));
  EXPECT_TRUE(send(servers[0], old).empty());
  EXPECT_EQ(dropped(members::MembershipDrop::kTag), 1U);
}

// Of a process that the box, restarted, does not remember.
TEST_F(MembersServer, ReplayedJoinOfAForgottenServerDisturbsNobody) {
  Peer former = servers[0];
  former.restart();
  ASSERT_TRUE(form(all()));
  const std::uint64_t publications = version;
  only(send_bare(servers[0], former.join()), PacketType::kChallenge, servers[0]);
  EXPECT_EQ(version, publications);
  only(send(servers[0], servers[0].heartbeat()), PacketType::kHeartbeat, servers[0]);
  EXPECT_EQ(status_for(send(servers[0], servers[0].join()), servers[0]), JoinStatus::kRunning);
  EXPECT_EQ(status(id).servers[0].instance, servers[0].instance);
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

TEST_F(MembersServer, AServerFromElsewhereWaitsForTheLease) {
  ASSERT_TRUE(form(all()));
  Peer other = servers[0];
  other.restart();
  other.binding.address = mapped({10, 0, 0, 77});
  const auto sent = send(other, other.join());
  EXPECT_EQ(status_for(sent, other), JoinStatus::kForming);
  EXPECT_EQ(dropped(members::MembershipDrop::kWait), 1U);
  EXPECT_EQ(row(id)->server_ranks[0].binding, servers[0].binding);
  wait(11 * kSecond, &servers[0]);
  ASSERT_EQ(status(id).phase, members::JobPhase::kAborted);
  for (Peer& p : workers) p.last = {};
  ASSERT_TRUE(form({&workers[0], &workers[1], &other, &servers[1]}));
  EXPECT_EQ(row(id)->server_ranks[0].binding, other.binding);
}

TEST_F(MembersServer, AServerThatMovedIsAnsweredWhenTheCoresKnowWhere) {
  ASSERT_TRUE(form(all()));
  cores_wait = true;
  servers[1].binding.udp_port = 4'321;
  EXPECT_TRUE(send(servers[1], servers[1].join()).empty());
  EXPECT_EQ(row(id)->server_ranks[1].binding, servers[1].binding);
  members->quiesced(version, now);
  EXPECT_EQ(status_for(answers(), servers[1]), JoinStatus::kRunning);
}

TEST_F(MembersServer, ARestartedServerWhosePathIsTooNarrowIsRefusedByName) {
  ASSERT_TRUE(form(all()));
  servers[0].restart();
  servers[0].elements = 336;
  const auto sent = send(servers[0], servers[0].join());
  EXPECT_EQ(
      only(sent, PacketType::kJoined, servers[0]).text(),
      "admission: server 0 carries packets of 336 elements at most, and the job's have 352: raise its mtu, "
      "or start the workers anew");
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

TEST_F(MembersServer, AdoptionRefusesAServerWhosePathIsTooNarrowAndWaitsForAnother) {
  ASSERT_TRUE(form(all()));
  forget_everything();
  servers[1].elements = 64;
  for (Peer* p : {&workers[0], &workers[1], &servers[0]}) send(*p, p->join());
  const auto sent = send(servers[1], servers[1].join());
  EXPECT_THAT(only(sent, PacketType::kJoined, servers[1]).text(),
              HasSubstr("server 1 carries packets of 64"));
  EXPECT_EQ(status(id).missing_servers, 0b10U);
  servers[1].elements = 352;
  const GenerationRecord record = workers[0].last;
  const auto running = send(servers[1], servers[1].join());
  EXPECT_EQ(only(running, PacketType::kJoined, workers[0]).joined().record, record);
}

TEST_F(MembersServer, ABoxThatLostEverythingAdoptsWhatTheWorkersReport) {
  ASSERT_TRUE(form(all()));
  const GenerationRecord record = workers[0].last;
  for (const bool knows : {true, false}) {
    forget_everything();
    if (!knows) servers[0].restart();
    ASSERT_TRUE(form(all()));
    EXPECT_EQ(workers[0].last, record);
    EXPECT_EQ(servers[0].last, record);
  }
}

TEST_F(MembersServer, WhatAServerReportsIsNobodysGeneration) {
  ASSERT_TRUE(form(all()));
  const GenerationRecord record = workers[0].last;
  forget_everything();
  for (Peer& p : workers) p.restart();
  ASSERT_TRUE(form(all()));
  EXPECT_NE(workers[0].last.generation.host(), record.generation.host());
  EXPECT_EQ(servers[0].last, workers[0].last);
}

TEST_F(MembersServer, ReturningWorkersAreRefusedWhenAServerDoesNotComeBack) {
  ASSERT_TRUE(form(all()));
  forget_everything();
  for (Peer* p : {&workers[0], &workers[1], &servers[0]}) send(*p, p->join());
  std::vector<Sent> sent;
  for (int i = 0; i < 11; ++i) {
    for (Peer* p : {&workers[0], &workers[1], &servers[0]}) send(*p, p->join());
    const auto some = advance(kSecond);
    sent.insert(sent.end(), some.begin(), some.end());
  }
  for (const Peer& p : workers) {
    EXPECT_EQ(only(sent, PacketType::kJoined, p).text(),
              "the job's generation cannot go on: server 1 did not come back within 10.0 s");
  }
  EXPECT_EQ(count_of(sent, PacketType::kJoined, servers[0]), 0U) << "it waits for the next workers";
  EXPECT_TRUE(status(id).servers[0].joined);
}

TEST_F(MembersServer, ReformingCallsServersBackAndWaitsForThem) {
  ASSERT_TRUE(form(all()));
  const std::uint32_t epoch = servers[0].epoch;
  members->restart_data_plane(now);
  const auto sent = settle();
  for (const Peer* p : all()) only(sent, PacketType::kReject, *p);
  for (Peer& p : workers) send(p, p.join());
  EXPECT_EQ(status(id).phase, members::JobPhase::kForming);
  EXPECT_EQ(status(id).missing_servers, 0b11U);
  ASSERT_TRUE(form(all()));
  EXPECT_NE(servers[0].epoch, epoch);
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

TEST_F(MembersServer, AServerRestartedWhileTheJobFormsAnewTakesItsPlace) {
  ASSERT_TRUE(form(all()));
  members->restart_data_plane(now);
  settle();
  servers[0].restart();
  const std::uint64_t generation = workers[0].last.generation.host();
  ASSERT_TRUE(form(all()));
  EXPECT_EQ(workers[0].last.generation.host(), generation);
}

TEST_F(MembersServer, AServerThatIsCalledBackInVainAbortsTheJobAndIsNamed) {
  ASSERT_TRUE(form(all()));
  members->restart_data_plane(now);
  settle();
  std::vector<Sent> sent;
  for (int i = 0; i < 11; ++i) {
    for (Peer* p : {&workers[0], &workers[1], &servers[0]}) send(*p, p->join());
    const auto some = advance(kSecond);
    sent.insert(sent.end(), some.begin(), some.end());
    if (status(id).phase == members::JobPhase::kAborted) break;
  }
  EXPECT_THAT(status(id).reason, HasSubstr("server 1 at 10.0.0.201 was silent"));
  EXPECT_EQ(count_of(sent, PacketType::kAbort, servers[0]), 1U);
  EXPECT_EQ(count_of(sent, PacketType::kJoined, servers[0]), 0U) << "a refusal would be final";
  EXPECT_EQ(count_of(sent, PacketType::kJoined, workers[0]), 1U);
}

// A job that is called back keeps its generation, whose elements do not change: it does not wait for ever for
// a server that cannot carry them.
TEST_F(MembersServer, AServerThatIsCalledBackTooNarrowIsRefusedAndItsLeaseEndsTheJob) {
  ASSERT_TRUE(form(all()));
  members->restart_data_plane(now);
  settle();
  servers[1].elements = 336;
  const auto sent = send(servers[1], servers[1].join());
  EXPECT_EQ(
      only(sent, PacketType::kJoined, servers[1]).text(),
      "admission: server 1 carries packets of 336 elements at most, and the job's have 352: raise its mtu, "
      "or start the workers anew");
  EXPECT_EQ(dropped(members::MembershipDrop::kField), 1U);
  for (int i = 0; i < 11 && status(id).phase != members::JobPhase::kAborted; ++i) {
    for (Peer* p : all()) send(*p, p->join());
    advance(kSecond);
  }
  EXPECT_EQ(status(id).phase, members::JobPhase::kAborted);
  EXPECT_THAT(status(id).reason, HasSubstr("server 1 at 10.0.0.201 was silent"));
}

TEST_F(MembersServer, AServerThatIsCalledBackTooNarrowMayComeAgainWider) {
  ASSERT_TRUE(form(all()));
  const std::uint64_t generation = workers[0].last.generation.host();
  members->restart_data_plane(now);
  settle();
  servers[1].elements = 336;
  for (Peer* p : all()) send(*p, p->join());
  EXPECT_EQ(status(id).missing_servers, 0b10U);
  servers[1].elements = 352;
  ASSERT_TRUE(form(all()));
  EXPECT_EQ(workers[0].last.generation.host(), generation);
}

}  // namespace
}  // namespace tally::members_test
