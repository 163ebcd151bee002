// External servers as members of a job (docs/protocol_server.md, 5.6).

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_server_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

TEST_F(MembersServer, TheJobFormsWhenAllWorkersAndAllServersHaveJoined) {
  EXPECT_EQ(status_for(send(servers[0], servers[0].join()), servers[0]), JoinStatus::kForming);
  send(workers[0], workers[0].join());
  const auto sent = send(workers[1], workers[1].join());
  EXPECT_EQ(only(sent, PacketType::kJoined, workers[1]).joined().missing.host(), 0U)
      << "a bitmap of workers, and only a server is missing";
  EXPECT_EQ(status(id).phase, members::JobPhase::kForming);
  EXPECT_EQ(status(id).missing, 0U);
  EXPECT_EQ(status(id).missing_servers, 0b10U);
  EXPECT_EQ(row(id), nullptr);
  auto last = send(servers[1], servers[1].join());
  std::erase_if(
      last, [&](const Sent& s) { return s.to == servers[1].binding && s.status() == JoinStatus::kForming; });
  for (const Peer* p : all()) EXPECT_EQ(status_for(last, *p), JoinStatus::kRunning) << p->rank;
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
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
  const jobs::NativeJob& job = *row(id);
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
  const jobs::NativeJob& job = *row(id);
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
  const members::JobStatus s = status(id);
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
  EXPECT_EQ(only(sent, PacketType::kJoined, servers[0]).text(), "job 'resnet': wrong token");
  EXPECT_EQ(dropped(members::MembershipDrop::kToken), 1U);
  servers[0].token.clear();
  EXPECT_EQ(only(send(servers[0], servers[0].join()), PacketType::kJoined, servers[0]).text(),
            "job 'resnet' has a token on this box, and none came: name its file in TALLY_TOKEN_FILE or "
            "--token-file");
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
  EXPECT_EQ(dropped(members::MembershipDrop::kRank), 2U);
}

TEST_F(MembersServer, AServerAsksForTheWorldAndAWorkerSaysIt) {
  servers[0].world = 2;
  EXPECT_TRUE(send(servers[0], servers[0].join()).empty());
  workers[0].world = 0;
  EXPECT_TRUE(send(workers[0], workers[0].join()).empty());
  Peer beyond = Peer::server(0);
  beyond.rank = raw(server_rank(kMaxServers));
  EXPECT_TRUE(send(beyond, beyond.join()).empty()) << "nobody's rank: its world would have to be said";
  EXPECT_EQ(dropped(members::MembershipDrop::kField), 3U);
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
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

TEST_F(MembersServer, ASilentServerAbortsTheJobAndIsNamed) {
  ASSERT_TRUE(form(all()));
  const auto sent = wait(11 * kSecond, &servers[0]);
  EXPECT_EQ(status(id).phase, members::JobPhase::kAborted);
  EXPECT_EQ(status(id).reason, "server 0 at 10.0.0.200 was silent for 10.0 s (lease 10.0 s)");
  for (const Peer* p : all()) EXPECT_EQ(only(sent, PacketType::kAbort, *p).text(), status(id).reason);
  EXPECT_EQ(row(id), nullptr);
}

TEST_F(MembersServer, ASilentServerLosesItsPlaceWhileTheJobForms) {
  send(servers[0], servers[0].join());
  EXPECT_EQ(status(id).phase, members::JobPhase::kForming);
  advance(20 * kSecond);
  EXPECT_EQ(status(id).phase, members::JobPhase::kDeclared);
  EXPECT_FALSE(status(id).servers[0].joined);
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
  EXPECT_EQ(status(id).phase, members::JobPhase::kEnded);
  only(sent, PacketType::kReject, servers[0]);
  const Sent late = only(send(servers[1], servers[1].heartbeat()), PacketType::kReject, servers[1]);
  EXPECT_EQ(late.header.slot.host(), static_cast<std::uint32_t>(RejectReason::kJob));
  for (Peer& p : workers) p.restart();
  ASSERT_TRUE(form(all()));
}

TEST_F(MembersServer, AServerDoesNotLeave) {
  ASSERT_TRUE(form(all()));
  EXPECT_TRUE(send(servers[0], servers[0].leave()).empty());
  EXPECT_EQ(dropped(members::MembershipDrop::kType), 1U);
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

TEST_F(MembersServer, WhileTheJobDrainsASilentServerMattersToNobody) {
  ASSERT_TRUE(form(all()));
  send(workers[0], workers[0].leave());
  for (int i = 0; i < 15; ++i) {
    send(workers[1], workers[1].heartbeat());
    advance(kSecond);
  }
  EXPECT_EQ(status(id).phase, members::JobPhase::kDraining);
}

TEST_F(MembersServer, ItsPacketsNeedItsCookieAndItsBinding) {
  ASSERT_TRUE(form(all()));
  Peer thief = servers[0];
  thief.binding.udp_port = 1;
  EXPECT_TRUE(send(thief, thief.heartbeat()).empty());
  EXPECT_EQ(dropped(members::MembershipDrop::kSource), 1U);
  thief = servers[0];
  thief.cookie = servers[1].cookie;
  EXPECT_TRUE(send(thief, thief.heartbeat()).empty());
  EXPECT_EQ(dropped(members::MembershipDrop::kCookie), 1U);
  thief.rank = raw(server_rank(2));
  EXPECT_TRUE(send(thief, thief.heartbeat()).empty());
  EXPECT_EQ(dropped(members::MembershipDrop::kRank), 1U);
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
  saw(id, server_rank(0), now + kSecond);
  EXPECT_EQ(status(id).servers[0].last_seen, seen);
}

TEST_F(MembersServer, MulticastGroupsFollowTheWorkers) {
  jobs[0].results = ResultsMode::kMulticast;
  forget_everything();
  servers[0].binding.address = Ipv6{0xfd};
  ASSERT_TRUE(form(all()));
  EXPECT_EQ(row(id)->results, ResultsMode::kMulticast) << "servers get their packets alone";
}

}  // namespace
}  // namespace tally::members_test
