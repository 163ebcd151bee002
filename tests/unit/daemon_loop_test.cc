// The control loop over a data plane that obeys when told: order, answers, leases, lines.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/control_loop.h"
#include "daemon_plane.h"
#include "tally/mix64.h"

namespace tally::daemon_test {
namespace {

using members_test::config_of;
using testing::HasSubstr;

members::MembershipEngine engine_with(const std::vector<members::NativeConfig>& jobs) {
  const members::MembershipOptions options{.box_mac = {2, 1, 2, 3, 4, 5}, .shards = 2, .slot_lines = 65'536};
  members::MembershipEngine engine(
      options, [state = std::uint64_t{7}]() mutable { return mix64(state += 0x9e3779b97f4a7c15ULL); });
  for (const auto& job : jobs) EXPECT_TRUE(engine.declare(job));
  return engine;
}

class DaemonLoop : public testing::Test {
 protected:
  DaemonLoop() {
    plane.deliver = [this](const Bytes& join, const jobs::Binding& from) {
      loop.members().engine().receive(join, from, now);
    };
  }
  // One turn after `by`; the cores obey before it unless they wait.
  TimeNs turn(TimeNs by = kMillisecond) {
    now += by;
    if (!cores_wait) plane.obey(now);
    return loop.turn(now);
  }
  void turns(int n) {
    for (int i = 0; i < n; ++i) turn();
  }
  // Turns as an idle daemon takes them.
  void pass(TimeNs time) {
    for (const TimeNs end = now + time; now < end;) turn(daemon::ControlLoop::kIdleTurn);
  }
  void form() {
    for (Peer& p : peers) plane.receive(p, p.join());
    turns(4);
    for (Peer& p : peers) members_test::Bench::take(p, plane.injected);
  }
  [[nodiscard]] members::JobStatus status() { return loop.members().engine().status(now).at(0); }
  [[nodiscard]] std::vector<Sent> to(const Peer& peer, PacketType type) const {
    std::vector<Sent> some;
    for (const Sent& s : plane.injected) {
      if (s.to == peer.binding && s.type() == type) some.push_back(s);
    }
    return some;
  }

  static constexpr TimeNs kDrain = 10 * kSecond;
  TimeNs now = 100 * kSecond;
  bool cores_wait = false;
  FakePlane plane;
  Journal journal;
  std::vector<Peer> peers{Peer(0), Peer(1)};
  daemon::ControlLoop loop{plane, engine_with({config_of(2)}), journal.sink(), kDrain, now};
};

TEST_F(DaemonLoop, TheFirstTurnPublishesTheEmptyTable) {
  cores_wait = true;
  turn();
  ASSERT_EQ(plane.publications.size(), 1U);
  EXPECT_NE(plane.publications[0].table, nullptr);
  EXPECT_EQ(plane.publications[0].table->find(JobId{1}), nullptr);
}

TEST_F(DaemonLoop, AParentWhosePlaceIsNotKnownIsAskedBehindEveryPort) {
  auto job = config_of(1);
  job.racks = members::RacksConfig{.workers = {1, 1}, .rack = 0, .parent = mapped({10, 9, 0, 9})};
  daemon::ControlLoop racked{plane, engine_with({job}), journal.sink(), kDrain, now};
  Peer worker(0);
  plane.deliver = [&](const Bytes& join, const jobs::Binding& from) {
    racked.members().engine().receive(join, from, now);
  };
  plane.receive(worker, worker.join());
  for (int i = 0; i < 4; ++i) {
    now += kMillisecond;
    plane.obey(now);
    racked.turn(now);
  }
  std::vector<Sent> joins;
  for (const Sent& s : plane.injected)
    if (s.type() == PacketType::kJoin) joins.push_back(s);
  ASSERT_EQ(joins.size(), plane.ports());
  for (std::size_t port = 0; port < joins.size(); ++port) {
    EXPECT_EQ(raw(joins[port].to.port), port);
    EXPECT_EQ(joins[port].to.mac, kBroadcastMac);
    EXPECT_EQ(joins[port].to.address, mapped({10, 9, 0, 9}));
    EXPECT_EQ(joins[port].to.vlan, jobs::kUntagged);
  }
  EXPECT_THAT(journal.all(), HasSubstr("the parent at 10.9.0.9 is asked"));
}

TEST_F(DaemonLoop, PuntsAreAnsweredAndTheJobRuns) {
  form();
  EXPECT_EQ(status().phase, members::JobPhase::kRunning);
  EXPECT_NE(peers[0].epoch, 0U);
  EXPECT_EQ(peers[0].epoch, peers[1].epoch);
  EXPECT_EQ(journal.count("job 'resnet': rank 1 joined from 10.0.0.1 (port w1); 2 of 2 ranks are here"), 1U);
  EXPECT_EQ(journal.count("running: generation 0x"), 1U);
  EXPECT_EQ(journal.count("window 256, 352 elements per packet"), 1U);
}

TEST_F(DaemonLoop, NobodyIsToldToRunBeforeEveryCoreHasTheRow) {
  turns(2);
  cores_wait = true;
  for (Peer& p : peers) plane.receive(p, p.join());
  for (int i = 0; i < 50; ++i) turn();
  const auto told = [&] {
    std::size_t n = 0;
    for (const Sent& s : plane.injected) n += s.status() == JoinStatus::kRunning ? 1 : 0;
    return n;
  };
  EXPECT_EQ(told(), 0U);
  EXPECT_FALSE(loop.members().settled());
  cores_wait = false;
  turn();
  EXPECT_EQ(told(), 2U);
  EXPECT_TRUE(loop.members().settled());
}

TEST_F(DaemonLoop, NoPublicationIsSkippedAndVersionsRise) {
  cores_wait = true;  // publications pile up
  for (Peer& p : peers) plane.receive(p, p.join());
  turns(2);
  cores_wait = false;
  turn();
  for (Peer& p : peers) members_test::Bench::take(p, plane.injected);
  cores_wait = true;
  plane.receive(peers[0], peers[0].abort("no more"));
  turn();
  for (Peer& p : peers) p.restart();
  for (Peer& p : peers) plane.receive(p, p.join());
  turns(2);
  std::uint64_t before = 0;
  std::size_t freed = 0;
  for (const auto& p : plane.publications) {
    EXPECT_EQ(p.version, before + 1);
    before = p.version;
    freed += p.freed.size();
  }
  EXPECT_EQ(plane.publications.size(), 4U);  // empty, the first row, cleared, the second row
  EXPECT_EQ(freed, 1U);
}

TEST_F(DaemonLoop, PublicationsComeBeforeTheAnswersOfTheTurn) {
  form();
  plane.trace.clear();
  plane.receive(peers[0], peers[0].abort("no more"));
  turn();
  ASSERT_GE(plane.trace.size(), 2U);
  EXPECT_THAT(plane.trace[0], HasSubstr("publish"));
  EXPECT_EQ(plane.trace[1], "inject 13");
}

TEST_F(DaemonLoop, AMismatchAbortsTheJobNamingBothSides) {
  form();
  pipeline::Event event{.kind = pipeline::EventKind::kMismatch,
                        .job = JobId{1},
                        .epoch = Epoch{peers[0].epoch},
                        .rank = Rank{1}};
  event.others = 1;
  event.sent = {.total = 16, .elements = 16};
  event.stored = {.total = 7'000, .elements = 352};
  plane.events.push_back(event);
  turn();
  EXPECT_EQ(status().phase, members::JobPhase::kAborted);
  for (const Peer& p : peers) {
    ASSERT_EQ(to(p, PacketType::kAbort).size(), 1U);
    EXPECT_THAT(to(p, PacketType::kAbort)[0].text(), HasSubstr("rank 1 sent 16 elements"));
  }
  EXPECT_EQ(journal.count("job 'resnet': aborted: the ranks issued different operations"), 1U);
}

TEST_F(DaemonLoop, APoisoningRankIsNamedAndTheLinesAreLimited) {
  form();
  for (int i = 0; i < 100; ++i)
    plane.events.push_back({.kind = pipeline::EventKind::kPoisoned, .job = JobId{1}, .rank = Rank{1}});
  turn();
  EXPECT_EQ(journal.count("job 'resnet': rank 1 sends values that do not match"), 4U);
  EXPECT_EQ(status().phase, members::JobPhase::kRunning);
  turn(10 * kSecond - 1);  // shorter than a lease after all
  plane.events.push_back({.kind = pipeline::EventKind::kPoisoned, .job = JobId{1}, .rank = Rank{1}});
  turn(kMillisecond);
  EXPECT_EQ(journal.count("(96 lines like this were left out)"), 1U);
}

TEST_F(DaemonLoop, ASessionWhoseMembersAskInVainIsNamedWithWhatTheyAskForAndWhatToDo) {
  members::SessionConfig session;
  session.name = "legacy";
  session.workers = 3;
  session.slots = 64;
  for (std::uint8_t rank = 0; rank < 3; ++rank)
    session.members.push_back(
        {rank, {2, 0, 0, 0, 0, rank}, {10, 0, 0, static_cast<std::uint8_t>(11 + rank)}});
  const auto id = loop.members().engine().declare(session);
  ASSERT_TRUE(id);
  turns(4);
  pipeline::Event event{.kind = pipeline::EventKind::kStalled,
                        .job = *id,
                        .chunk = Chunk{12},
                        .rank = Rank{1},
                        .others = 0b010,
                        .pool_index = 0x8003,
                        .job_number = 7,
                        .since = now - 6 * kSecond};
  plane.events.push_back(event);
  event.refused = true;
  plane.events.push_back(event);
  event = {.kind = pipeline::EventKind::kStalled, .job = *id, .others = 0b111, .since = now};
  plane.events.push_back(event);
  turn();
  EXPECT_EQ(journal.count(
                "job 'legacy': for 6.0 s members have asked and nothing was added; last rank 1, for slot 3, "
                "set 1, operation number 7, tsi 12: it waits for ranks 0 and 2"),
            1U)
      << journal.all();
  EXPECT_EQ(journal.count("begin the session anew: another `run:`, and a reload"), 1U);
  EXPECT_EQ(journal.count("the result is sent to it again and again"), 1U);
}

TEST_F(DaemonLoop, ASilentRankAbortsTheJobAndTheOthersHearWhy) {
  form();
  for (int second = 0; second < 12; ++second) {
    plane.receive(peers[0], peers[0].heartbeat());
    pass(kSecond);
  }
  EXPECT_EQ(status().phase, members::JobPhase::kAborted);
  ASSERT_GE(to(peers[0], PacketType::kAbort).size(), 1U);
  EXPECT_THAT(to(peers[0], PacketType::kAbort)[0].text(), HasSubstr("rank 1"));
}

TEST_F(DaemonLoop, WhatACoreSawKeepsARankAlive) {
  form();
  for (int second = 0; second < 40; ++second) {
    plane.receive(peers[0], peers[0].heartbeat());
    plane.state_of(1, JobId{1}).last_seen[1] = now;  // contributions only, and on the second core
    pass(kSecond);
  }
  EXPECT_EQ(status().phase, members::JobPhase::kRunning);
}

// A starved or stopped daemon: the heartbeats came in time, nobody read them.
TEST_F(DaemonLoop, TimeInWhichNobodyListenedCountsAgainstNoLease) {
  form();
  pass(6 * kSecond);
  for (const Peer& p : peers) plane.receive(p, p.heartbeat());
  turn(9 * kSecond);
  EXPECT_EQ(status().phase, members::JobPhase::kRunning);
  // The silence before and after it does count.
  plane.receive(peers[0], peers[0].heartbeat());
  pass(10 * kSecond);
  EXPECT_EQ(status().phase, members::JobPhase::kAborted);
}

TEST_F(DaemonLoop, ADaemonThatIsAlwaysLateNoticesTheDeadWithinTwoLeases) {
  form();
  for (int i = 0; i < 199; ++i) {
    plane.receive(peers[0], peers[0].heartbeat());
    turn(100 * kMillisecond);
  }
  EXPECT_EQ(status().phase, members::JobPhase::kRunning);
  turn(100 * kMillisecond);
  EXPECT_EQ(status().phase, members::JobPhase::kAborted);
}

// By then the workers have closed by themselves, and new ones wait for their places.
TEST_F(DaemonLoop, AStallOfMoreThanALeaseEndsTheJob) {
  form();
  for (const Peer& p : peers) plane.receive(p, p.heartbeat());
  turn(30 * kSecond);
  EXPECT_EQ(status().phase, members::JobPhase::kAborted);
}

TEST_F(DaemonLoop, RefusalsAreLoggedWithTheReasonAndLimited) {
  Peer stranger(1);
  stranger.token = "guess";
  for (int i = 0; i < 30; ++i) {
    plane.receive(stranger, stranger.join());
    turn(150 * kMillisecond);  // slower than the engine's limit per source
  }
  EXPECT_EQ(plane.count(PacketType::kJoined), 30U);
  const std::size_t lines =
      journal.count("refused a worker at 10.0.0.1 (port w1): job 'resnet': wrong token");
  EXPECT_GE(lines, 8U);
  EXPECT_LE(lines, 13U);  // 8 at once, then one per second
  for (const auto& [level, line] : journal.lines) {
    const std::size_t at = line.find("wrong token");
    if (at == std::string::npos) continue;
    const std::string rest = line.substr(at + std::string("wrong token").size());
    EXPECT_TRUE(rest.empty() || rest.starts_with(" ("))
        << "the tag behind the text is not for people: " << line;
  }
}

TEST_F(DaemonLoop, AFullRingLosesAnswersAndCountsThem) {
  plane.full = true;
  plane.receive(peers[0], peers[0].join());
  turns(2);
  EXPECT_EQ(plane.injected.size(), 0U);
  EXPECT_GE(loop.members().unsent(), 1U);
}

TEST_F(DaemonLoop, AFloodOfPuntsIsTakenInTurns) {
  for (int i = 0; i < 100; ++i) plane.receive(peers[0], peers[0].join_again());
  EXPECT_EQ(turn(), 0U) << "what waits is not left for the timer";
  EXPECT_GT(plane.punts.size(), 0U);
  turns(4);
  EXPECT_EQ(plane.punts.size(), 0U);
}

TEST_F(DaemonLoop, TurnsAreBriskWhileJobsChangeAndSlowAfterwards) {
  form();
  EXPECT_EQ(turn(), daemon::ControlLoop::kBriskTurn);
  EXPECT_EQ(turn(daemon::ControlLoop::kBriskFor), daemon::ControlLoop::kIdleTurn);
  plane.receive(peers[0], peers[0].heartbeat());  // an echo is no hurry
  EXPECT_EQ(turn(), daemon::ControlLoop::kIdleTurn);
  plane.receive(peers[0], peers[0].leave());
  EXPECT_EQ(turn(), daemon::ControlLoop::kBriskTurn);
}

TEST_F(DaemonLoop, AJobThatDrainsAndEndsIsTold) {
  form();
  plane.receive(peers[0], peers[0].leave());
  turn();
  EXPECT_EQ(journal.count("job 'resnet': rank 0 left"), 1U);
  EXPECT_EQ(journal.count("draining: rank 0 left, the others go on"), 1U);
  plane.receive(peers[1], peers[1].leave());
  turn();
  EXPECT_EQ(journal.count("job 'resnet': ended: every rank has left"), 1U);
}

TEST_F(DaemonLoop, AnAbortFollowedByAJoinInTheSameTurnIsTold) {
  form();
  plane.receive(peers[0], peers[0].abort("out of memory"));
  peers[1].restart();
  plane.receive(peers[1], peers[1].join());
  turn();
  EXPECT_EQ(status().phase, members::JobPhase::kForming);
  EXPECT_EQ(journal.count("job 'resnet': aborted, and forms again: rank 0: out of memory"), 1U)
      << journal.all();
}

}  // namespace
}  // namespace tally::daemon_test
