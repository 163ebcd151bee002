// External servers as members of a job (docs/protocol.md, 5.6).

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

// Two workers and two servers.
struct MembersServer : testing::Test, Bench {
  MembersServer() : Bench(shared_box(65'536, 100)) {}

  JobId id = declare(served_of(2, 2));
  std::vector<Peer> workers{Peer(0), Peer(1)};
  std::vector<Peer> servers{Peer::server(0), Peer::server(1)};

  std::vector<Peer*> all() { return {&workers[0], &workers[1], &servers[0], &servers[1]}; }
  // Time goes by; everybody else says that it is there.
  std::vector<Sent> wait(TimeNs time, const Peer* silent = nullptr) {
    std::vector<Sent> sent;
    for (TimeNs passed = 0; passed < time; passed += kSecond) {
      for (const Peer* p : all()) {
        if (p != silent) send(*p, p->heartbeat());
      }
      const auto some = advance(std::min(kSecond, time - passed));
      sent.insert(sent.end(), some.begin(), some.end());
    }
    return sent;
  }
  std::uint64_t dropped(MembershipDrop d) const { return members->counters().of(d); }
};

JoinStatus status_for(const std::vector<Sent>& sent, const Peer& p) {
  return only(sent, PacketType::kJoined, p).status();
}

TEST_F(MembersServer, TheJobFormsWhenAllWorkersAndAllServersHaveJoined) {
  EXPECT_EQ(status_for(send(servers[0], servers[0].join()), servers[0]), JoinStatus::kForming);
  send(workers[0], workers[0].join());
  const auto sent = send(workers[1], workers[1].join());
  EXPECT_EQ(only(sent, PacketType::kJoined, workers[1]).joined().missing.host(), 0U)
      << "a bitmap of workers, and only a server is missing";
  EXPECT_EQ(status(id).phase, JobPhase::kForming);
  EXPECT_EQ(status(id).missing, 0U);
  EXPECT_EQ(status(id).missing_servers, 0b10U);
  EXPECT_EQ(row(id), nullptr);
  auto last = send(servers[1], servers[1].join());
  std::erase_if(
      last, [&](const Sent& s) { return s.to == servers[1].binding && s.status() == JoinStatus::kForming; });
  for (const Peer* p : all()) EXPECT_EQ(status_for(last, *p), JoinStatus::kRunning) << p->rank;
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
  EXPECT_EQ(status(id).missing_servers, 0U);
}

TEST_F(MembersServer, AServerIsToldWhichWorkersAreMissing) {
  send(workers[1], workers[1].join());
  const auto sent = send(servers[0], servers[0].join());
  const JoinedPayload joined = only(sent, PacketType::kJoined, servers[0]).joined();
  EXPECT_EQ(joined.missing.host(), 0b01U);
  EXPECT_EQ(joined.world.host(), 2U);
}

TEST_F(MembersServer, JoinedTellsAServerItsCookieTheMembersAndTheHighestPriority) {
  jobs[0].priority = 130;
  forget_everything();
  std::vector<Sent> sent;
  for (Peer* p : all()) {
    const auto some = send(*p, p->join());
    sent.insert(sent.end(), some.begin(), some.end());
  }
  std::erase_if(sent, [](const Sent& s) { return s.status() != JoinStatus::kRunning; });
  const Job& job = *row(id);
  for (std::uint32_t i = 0; i < 2; ++i) {
    const Sent s = only(sent, PacketType::kJoined, servers[i]);
    const JoinedPayload joined = s.joined();
    EXPECT_EQ(Cookie{joined.cookie.host()}, job.server_ranks[i].cookie);
    EXPECT_EQ(s.header.cookie.host(), raw(job.result_cookie));
    EXPECT_EQ(s.header.priority, 130);
    EXPECT_EQ(joined.world.host(), 2U);
    EXPECT_EQ(raw(job.generation), joined.record.generation.host());
  }
}

TEST_F(MembersServer, TheRowTellsTheCoresWhereTheServersAre) {
  ASSERT_TRUE(form(all()));
  const Job& job = *row(id);
  EXPECT_EQ(job.server, ServerKind::kExternal);
  EXPECT_EQ(job.servers, 2U);
  EXPECT_EQ(job.members, 0b11U);
  std::vector<Cookie> cookies{job.result_cookie};
  for (std::uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(job.server_ranks[i].binding, servers[i].binding);
    EXPECT_EQ(job.server_ranks[i].key, 0U);
    cookies.push_back(job.server_ranks[i].cookie);
    cookies.push_back(job.ranks[i].cookie);
  }
  std::sort(cookies.begin(), cookies.end());
  EXPECT_EQ(std::unique(cookies.begin(), cookies.end()), cookies.end()) << "secrets of five";
}

TEST_F(MembersServer, StatusShowsItsServers) {
  ASSERT_TRUE(form(all()));
  wait(2 * kSecond);
  const JobStatus s = status(id);
  ASSERT_EQ(s.ranks.size(), 2U);
  ASSERT_EQ(s.servers.size(), 2U);
  EXPECT_TRUE(s.servers[1].joined);
  EXPECT_EQ(s.servers[1].binding, servers[1].binding);
  EXPECT_EQ(s.servers[1].instance, servers[1].instance);
  EXPECT_EQ(s.servers[1].last_seen, now - kSecond);
  EXPECT_EQ(s.live, 0b11U) << "workers";
}

TEST_F(MembersServer, TokenIsCheckedAsAWorkers) {
  servers[0].token = "guess";
  const auto sent = send(servers[0], servers[0].join());
  EXPECT_THAT(only(sent, PacketType::kJoined, servers[0]).text(), HasSubstr("wrong token"));
  EXPECT_EQ(dropped(MembershipDrop::kToken), 1U);
}

TEST_F(MembersServer, AnIndexThatTheJobHasNotIsRefusedByName) {
  Peer third = Peer::server(2);
  EXPECT_EQ(only(send(third, third.join()), PacketType::kJoined, third).text(),
            "job 'resnet' has servers 0 to 1, not 2");
  declare(sharer_of(2, Discipline::kShared, "bert"));
  Peer stray = Peer::server(0);
  stray.job = "bert";
  EXPECT_THAT(only(send(stray, stray.join()), PacketType::kJoined, stray).text(),
              HasSubstr("job 'bert' has no external server here"));
  EXPECT_EQ(dropped(MembershipDrop::kRank), 2U);
}

TEST_F(MembersServer, AServerAsksForTheWorldAndAWorkerSaysIt) {
  servers[0].world = 2;
  EXPECT_TRUE(send(servers[0], servers[0].join()).empty());
  workers[0].world = 0;
  EXPECT_TRUE(send(workers[0], workers[0].join()).empty());
  Peer beyond = Peer::server(0);
  beyond.rank = raw(server_rank(kMaxServers));
  EXPECT_TRUE(send(beyond, beyond.join()).empty()) << "nobody's rank: its world would have to be said";
  EXPECT_EQ(dropped(MembershipDrop::kField), 3U);
}

TEST_F(MembersServer, ItsPathTakesPartInTheSizeOfPackets) {
  servers[1].elements = 128;
  ASSERT_TRUE(form(all()));
  EXPECT_EQ(row(id)->elements, 128U);
}

TEST_F(MembersServer, HeartbeatIsEchoedWithTheWorkersThatAreThere) {
  ASSERT_TRUE(form(all()));
  const auto sent = send(servers[0], servers[0].heartbeat());
  const Sent echo = only(sent, PacketType::kHeartbeat, servers[0]);
  EXPECT_EQ(echo.header.contributors.host(), 0b11U);
  EXPECT_EQ(echo.header.cookie.host(), servers[0].result_cookie);
}

TEST_F(MembersServer, WhatAServerCountsDoesNotRenewTheEpoch) {
  ASSERT_TRUE(form(all()));
  servers[0].next = 1U << 30U;
  send(servers[0], servers[0].heartbeat());
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
}

TEST_F(MembersServer, ASilentServerAbortsTheJobAndIsNamed) {
  ASSERT_TRUE(form(all()));
  const auto sent = wait(11 * kSecond, &servers[0]);
  EXPECT_EQ(status(id).phase, JobPhase::kAborted);
  EXPECT_EQ(status(id).reason, "server 0 at 10.0.0.200 was silent for 10.0 s (lease 10.0 s)");
  for (const Peer* p : all()) EXPECT_EQ(only(sent, PacketType::kAbort, *p).text(), status(id).reason);
  EXPECT_EQ(row(id), nullptr);
}

TEST_F(MembersServer, ASilentServerLosesItsPlaceWhileTheJobForms) {
  send(servers[0], servers[0].join());
  EXPECT_EQ(status(id).phase, JobPhase::kForming);
  advance(20 * kSecond);
  EXPECT_EQ(status(id).phase, JobPhase::kDeclared);
  EXPECT_FALSE(status(id).servers[0].joined);
}

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
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
  EXPECT_EQ(status(id).servers[0].instance, servers[0].instance);
  only(send(servers[0], servers[0].heartbeat()), PacketType::kHeartbeat, servers[0]);
}

TEST_F(MembersServer, ReplayedJoinOfAFormerServerIsDropped) {
  ASSERT_TRUE(form(all()));
  const Bytes old = servers[0].join_again();
  servers[0].restart();
  take(servers[0], send(servers[0], servers[0].join()));
  EXPECT_TRUE(send(servers[0], old).empty());
  EXPECT_EQ(dropped(MembershipDrop::kOldAttempt), 1U);
  EXPECT_EQ(status(id).servers[0].instance, servers[0].instance);
}

// Of a process that the box, restarted, does not remember.
TEST_F(MembersServer, ReplayedJoinOfAForgottenServerDisturbsNobody) {
  Peer former = servers[0];
  former.restart();
  ASSERT_TRUE(form(all()));
  const std::uint64_t publications = version;
  const auto sent = send(servers[0], former.join());
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].to, servers[0].binding);
  EXPECT_NE(sent[0].joined().nonce.host(), servers[0].nonce) << "who lives drops it";
  EXPECT_EQ(version, publications);
  only(send(servers[0], servers[0].heartbeat()), PacketType::kHeartbeat, servers[0]);
  EXPECT_EQ(status_for(send(servers[0], servers[0].join()), servers[0]), JoinStatus::kRunning);
  EXPECT_EQ(status(id).servers[0].instance, servers[0].instance);
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
}

TEST_F(MembersServer, AServerFromElsewhereWaitsForTheLease) {
  ASSERT_TRUE(form(all()));
  Peer other = servers[0];
  other.restart();
  other.binding.address = mapped({10, 0, 0, 77});
  const auto sent = send(other, other.join());
  EXPECT_EQ(status_for(sent, other), JoinStatus::kForming);
  EXPECT_EQ(dropped(MembershipDrop::kWait), 1U);
  EXPECT_EQ(row(id)->server_ranks[0].binding, servers[0].binding);
  wait(11 * kSecond, &servers[0]);
  ASSERT_EQ(status(id).phase, JobPhase::kAborted);
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
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
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
  EXPECT_EQ(status(id).phase, JobPhase::kForming);
  EXPECT_EQ(status(id).missing_servers, 0b11U);
  ASSERT_TRUE(form(all()));
  EXPECT_NE(servers[0].epoch, epoch);
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
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
    if (status(id).phase == JobPhase::kAborted) break;
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
  EXPECT_EQ(dropped(MembershipDrop::kField), 1U);
  for (int i = 0; i < 11 && status(id).phase != JobPhase::kAborted; ++i) {
    for (Peer* p : all()) send(*p, p->join());
    advance(kSecond);
  }
  EXPECT_EQ(status(id).phase, JobPhase::kAborted);
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

TEST_F(MembersServer, AnAbortReachesServersAndTheyFormAgain) {
  ASSERT_TRUE(form(all()));
  const auto sent = send(workers[1], workers[1].abort("bad input"));
  EXPECT_EQ(only(sent, PacketType::kAbort, servers[0]).text(), "rank 1: bad input");
  EXPECT_EQ(count_of(sent, PacketType::kJoined, servers[0]), 0U);
  EXPECT_EQ(status_for(send(servers[0], servers[0].join()), servers[0]), JoinStatus::kForming)
      << "what it reports of the aborted generation is no reason to refuse it";
  for (Peer& p : workers) p.restart();
  ASSERT_TRUE(form(all()));
}

TEST_F(MembersServer, AnAbortOfAServerNamesIt) {
  ASSERT_TRUE(form(all()));
  send(servers[1], servers[1].abort("out of memory"));
  EXPECT_EQ(status(id).reason, "server 1: out of memory");
}

TEST_F(MembersServer, WhenAllWorkersHaveLeftServersAreCalledBackAndFormAgain) {
  ASSERT_TRUE(form(all()));
  send(workers[0], workers[0].leave());
  EXPECT_EQ(only(send(servers[0], servers[0].heartbeat()), PacketType::kHeartbeat, servers[0])
                .header.contributors.host(),
            0b10U);
  const auto sent = send(workers[1], workers[1].leave());
  EXPECT_EQ(status(id).phase, JobPhase::kEnded);
  only(sent, PacketType::kReject, servers[0]);
  const Sent late = only(send(servers[1], servers[1].heartbeat()), PacketType::kReject, servers[1]);
  EXPECT_EQ(late.header.slot.host(), static_cast<std::uint32_t>(RejectReason::kEpoch));
  for (Peer& p : workers) p.restart();
  ASSERT_TRUE(form(all()));
}

TEST_F(MembersServer, AServerDoesNotLeave) {
  ASSERT_TRUE(form(all()));
  EXPECT_TRUE(send(servers[0], servers[0].leave()).empty());
  EXPECT_EQ(dropped(MembershipDrop::kType), 1U);
  EXPECT_EQ(status(id).phase, JobPhase::kRunning);
}

TEST_F(MembersServer, WhileTheJobDrainsASilentServerMattersToNobody) {
  ASSERT_TRUE(form(all()));
  send(workers[0], workers[0].leave());
  for (int i = 0; i < 15; ++i) {
    send(workers[1], workers[1].heartbeat());
    advance(kSecond);
  }
  EXPECT_EQ(status(id).phase, JobPhase::kDraining);
}

TEST_F(MembersServer, ItsPacketsNeedItsCookieAndItsBinding) {
  ASSERT_TRUE(form(all()));
  Peer thief = servers[0];
  thief.binding.udp_port = 1;
  EXPECT_TRUE(send(thief, thief.heartbeat()).empty());
  EXPECT_EQ(dropped(MembershipDrop::kSource), 1U);
  thief = servers[0];
  thief.cookie = servers[1].cookie;
  EXPECT_TRUE(send(thief, thief.heartbeat()).empty());
  EXPECT_EQ(dropped(MembershipDrop::kCookie), 1U);
  thief.rank = raw(server_rank(2));
  EXPECT_TRUE(send(thief, thief.heartbeat()).empty());
  EXPECT_EQ(dropped(MembershipDrop::kRank), 1U);
}

TEST_F(MembersServer, WithdrawalRefusesWaitingServersAndAbortsThoseAtWork) {
  send(servers[0], servers[0].join());
  ASSERT_TRUE(members->withdraw("resnet", "gone"));
  EXPECT_EQ(only(answers(), PacketType::kJoined, servers[0]).text(), "gone");
  forget_everything();
  id = JobId{1};
  ASSERT_TRUE(form(all()));
  ASSERT_TRUE(members->withdraw("resnet", "gone"));
  EXPECT_EQ(only(settle(), PacketType::kAbort, servers[0]).text(), "gone");
  const auto sent = send(servers[0], servers[0].join());
  EXPECT_THAT(only(sent, PacketType::kJoined, servers[0]).text(), HasSubstr("not declared"));
}

TEST_F(MembersServer, AClosingBoxRefusesWaitingServers) {
  send(servers[0], servers[0].join());
  EXPECT_EQ(members->close("shutting down"), 0U);
  EXPECT_EQ(only(answers(), PacketType::kJoined, servers[0]).text(), "shutting down");
}

TEST_F(MembersServer, DataCoresSayNothingOfItsLease) {
  ASSERT_TRUE(form(all()));
  const TimeNs seen = status(id).servers[0].last_seen;
  members->seen(id, server_rank(0), now + kSecond);
  EXPECT_EQ(status(id).servers[0].last_seen, seen);
}

TEST_F(MembersServer, MulticastGroupsFollowTheWorkers) {
  jobs[0].results = ResultsMode::kMulticast;
  forget_everything();
  servers[0].binding.address = Ipv6{0xfd};
  ASSERT_TRUE(form(all()));
  EXPECT_EQ(row(id)->results, ResultsMode::kMulticast) << "servers get their packets alone";
}

TEST(MembersServerConfig, ServersMustFitTheirKind) {
  const auto error = [](auto change) {
    JobConfig c = served_of(2, 16);
    change(c);
    const auto valid = validate(c);
    return valid ? std::string() : valid.error().text();
  };
  EXPECT_EQ(error([](JobConfig&) {}), "");
  for (const Discipline d : {Discipline::kFcfs, Discipline::kPreemptive})
    EXPECT_EQ(error([d](JobConfig& c) { c.discipline = d; }), "");
  EXPECT_THAT(error([](JobConfig& c) { c.servers = 0; }), HasSubstr("servers is 0; it must be 1 to 16"));
  EXPECT_THAT(error([](JobConfig& c) { c.servers = 17; }), HasSubstr("servers is 17"));
  EXPECT_THAT(error([](JobConfig& c) { c.server = ServerKind::kEmbedded; }), HasSubstr("servers is 16"));
  EXPECT_THAT(error([](JobConfig& c) { c.discipline = Discipline::kPool; }), HasSubstr("none with pool"));
  EXPECT_THAT(error([](JobConfig& c) { c.server = static_cast<ServerKind>(3); }),
              HasSubstr("server must be"));
}

}  // namespace
}  // namespace tally::members_test
