// SIGTERM: what a daemon does before it ends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/control_loop.h"
#include "daemon_plane.h"
#include "tally/mix64.h"

namespace tally::daemon_test {
namespace {

using members_test::config_of;
using testing::HasSubstr;

members::MembershipEngine two_jobs() {
  const members::MembershipOptions options{.box_mac = {2, 1, 2, 3, 4, 5}, .shards = 2, .slot_lines = 65'536};
  members::MembershipEngine engine(
      options, [state = std::uint64_t{7}]() mutable { return mix64(state += 0x9e3779b97f4a7c15ULL); });
  EXPECT_TRUE(engine.declare(config_of(2)));
  EXPECT_TRUE(engine.declare(config_of(2, "bert")));
  return engine;
}

class DaemonShutdown : public testing::Test {
 protected:
  DaemonShutdown() {
    plane.deliver = [this](const Bytes& join, const jobs::Binding& from) {
      loop.members().engine().receive(join, from, now);
    };
  }
  void turn(TimeNs by = kMillisecond) {
    now += by;
    if (!cores_stuck) plane.obey(now);
    loop.turn(now);
  }
  void run_until_done(TimeNs most) {
    for (const TimeNs end = now + most; !loop.done() && now < end;) turn();
  }
  void form() {
    for (Peer& p : peers) plane.receive(p, p.join());
    for (int i = 0; i < 4; ++i) turn();
    for (Peer& p : peers) members_test::Bench::take(p, plane.injected);
    plane.injected.clear();
  }
  // Texts of the ABORTs and refusals to one worker.
  [[nodiscard]] std::vector<std::string> farewells(const Peer& peer) const {
    std::vector<std::string> texts;
    for (const Sent& s : plane.injected) {
      const bool refused = s.type() == PacketType::kJoined && s.status() == JoinStatus::kRefused;
      if (s.to == peer.binding && (refused || s.type() == PacketType::kAbort)) texts.push_back(s.text());
    }
    return texts;
  }

  TimeNs now = 100 * kSecond;
  bool cores_stuck = false;
  FakePlane plane;
  Journal journal;
  std::vector<Peer> peers{Peer(0), Peer(1)};
  daemon::ControlLoop loop{plane, two_jobs(), journal.sink(), 10 * kSecond, now};
};

TEST_F(DaemonShutdown, WithoutRunningJobsItEndsWithinAMoment) {
  turn();
  loop.end(now);
  EXPECT_TRUE(loop.ending());
  EXPECT_FALSE(loop.done());
  run_until_done(200 * kMillisecond);
  EXPECT_TRUE(loop.done());
  EXPECT_EQ(journal.count("shutting down"), 1U);
}

// A client of SwitchML knows no LEAVE: waiting for it would wait for ever.
TEST_F(DaemonShutdown, ASessionEndsAtOnceAlsoWhileARunningJobGoesOn) {
  members::SessionConfig session;
  session.name = "legacy";
  session.slots = 64;
  session.members.push_back({0, {2, 0, 0, 0, 0, 9}, {10, 0, 0, 9}});
  ASSERT_TRUE(loop.members().engine().declare(session));
  form();
  EXPECT_EQ(journal.count("job 'legacy': running, a session"), 1U) << journal.all();
  EXPECT_EQ(jobs::row_as<jobs::SessionJob>(plane.publications.back().table->row(JobId{3}))->slot_count, 64U);
  loop.end(now);
  turn();
  EXPECT_EQ(journal.count("job 'legacy': ended"), 1U) << journal.all();
  EXPECT_EQ(journal.count("shutting down: 1 job may go on"), 1U) << journal.all();
  EXPECT_EQ(jobs::job_of(plane.publications.back().table->row(JobId{3})), nullptr);
  EXPECT_FALSE(loop.done());
}

// Nobody joins a session and none of its packets comes to control: without a look here, nothing would have
// asked the cores since it runs.
TEST_F(DaemonShutdown, ASessionThatEndsStillShowsWhenItsMembersWereSeen) {
  members::SessionConfig session;
  session.name = "legacy";
  session.slots = 64;
  session.members.push_back({0, {2, 0, 0, 0, 0, 9}, {10, 0, 0, 9}});
  session.members.push_back({1, {2, 0, 0, 0, 0, 10}, {10, 0, 0, 10}});
  const auto id = loop.members().engine().declare(session);
  ASSERT_TRUE(id);
  for (int i = 0; i < 4; ++i) turn();
  const TimeNs seen = now + kSecond;
  plane.state_of(1, *id).last_seen[0] = seen;
  now += 2 * kSecond;
  loop.end(now);
  run_until_done(200 * kMillisecond);
  ASSERT_TRUE(loop.done());
  const members::JobStatus& ended = loop.members().watch().jobs().at(*id);
  EXPECT_EQ(ended.phase, members::JobPhase::kEnded);
  ASSERT_EQ(ended.ranks.size(), 2U);
  EXPECT_EQ(ended.ranks[0].last_seen, seen);
  EXPECT_EQ(ended.ranks[1].last_seen, 0U);
}

TEST_F(DaemonShutdown, AFormingJobIsWithdrawnWithTheReason) {
  Peer alone(0);
  alone.job = "bert";
  plane.receive(alone, alone.join());
  turn();
  loop.end(now);
  turn();
  ASSERT_EQ(farewells(alone).size(), 1U);
  EXPECT_EQ(farewells(alone)[0], "the box is shutting down");
}

TEST_F(DaemonShutdown, ARunningJobGoesOnUntilItsWorkersLeave) {
  form();
  loop.end(now);
  for (int i = 0; i < 5; ++i) {
    for (const Peer& p : peers) plane.receive(p, p.heartbeat());
    turn(kSecond);
  }
  EXPECT_FALSE(loop.done());
  EXPECT_EQ(plane.count(PacketType::kAbort), 0U);
  EXPECT_EQ(plane.count(PacketType::kHeartbeat), 10U);
  for (const Peer& p : peers) plane.receive(p, p.leave());
  turn();
  run_until_done(200 * kMillisecond);
  EXPECT_TRUE(loop.done());
  EXPECT_EQ(plane.count(PacketType::kAbort), 0U);
}

TEST_F(DaemonShutdown, AfterTheTimeRunningJobsAreWithdrawnAndEveryMemberIsTold) {
  form();
  loop.end(now);
  const TimeNs end = now + 10 * kSecond;
  while (now + 500 * kMillisecond < end) {
    for (const Peer& p : peers) plane.receive(p, p.heartbeat());
    turn(500 * kMillisecond);
  }
  EXPECT_EQ(plane.count(PacketType::kAbort), 0U);
  turn(500 * kMillisecond);
  for (const Peer& p : peers) {
    ASSERT_EQ(farewells(p).size(), 1U);
    EXPECT_EQ(farewells(p)[0], "the box is shutting down");
  }
  EXPECT_EQ(plane.publications.back().table->find(JobId{1}), nullptr);
  EXPECT_EQ(plane.publications.back().freed.size(), 1U);
  EXPECT_EQ(journal.count("job 'resnet' still has ranks 0 and 1 after 10.0 s: withdrawing it"), 1U);
  run_until_done(200 * kMillisecond);
  EXPECT_TRUE(loop.done());
}

TEST_F(DaemonShutdown, NothingNewIsAdmittedWhileARunningJobGoesOn) {
  form();
  loop.end(now);
  Peer late(0);
  late.job = "bert";
  late.binding.address = mapped({10, 0, 0, 9});
  plane.receive(late, late.join());
  turn();
  ASSERT_EQ(farewells(late).size(), 1U);
  EXPECT_EQ(farewells(late)[0], "the box is shutting down");
  // The running job's workers end it and come back at once.
  for (const Peer& p : peers) plane.receive(p, p.leave());
  turn();
  peers[0].restart();
  plane.receive(peers[0], peers[0].join());
  turn();
  ASSERT_GE(farewells(peers[0]).size(), 1U);
  EXPECT_EQ(farewells(peers[0]).back(), "the box is shutting down");
}

TEST_F(DaemonShutdown, ItWaitsUntilTheCoresHaveSentTheFarewells) {
  form();
  loop.end(now);
  for (const Peer& p : peers) plane.receive(p, p.leave());
  turn();
  cores_stuck = true;
  for (int i = 0; i < 500; ++i) turn();
  EXPECT_FALSE(loop.done());
  cores_stuck = false;
  run_until_done(200 * kMillisecond);
  EXPECT_TRUE(loop.done());
  EXPECT_EQ(journal.count("does not answer"), 0U);
}

TEST_F(DaemonShutdown, AStuckCoreDoesNotHoldItUpForEver) {
  form();
  cores_stuck = true;
  loop.end(now);
  for (const Peer& p : peers) plane.receive(p, p.leave());
  run_until_done(2 * kSecond);
  EXPECT_TRUE(loop.done());
  EXPECT_EQ(journal.count("a data core does not answer"), 1U);
}

// timeout(1) sends SIGTERM to the process and to its group.
TEST_F(DaemonShutdown, TheSameSignalTwiceIsOne) {
  form();
  const TimeNs told = now;
  loop.end(told);
  turn();
  loop.end(now);
  loop.end(told + daemon::ControlLoop::kOneSignal - 1);
  EXPECT_FALSE(loop.done());
  EXPECT_EQ(journal.count("stopping at once"), 0U);
}

TEST_F(DaemonShutdown, TheSecondSignalEndsAtOnce) {
  form();
  loop.end(now);
  turn();
  loop.end(now + daemon::ControlLoop::kOneSignal);
  EXPECT_TRUE(loop.done());
  EXPECT_EQ(plane.count(PacketType::kAbort), 0U);
  EXPECT_EQ(journal.count("stopping at once: workers are not told"), 1U);
}

TEST_F(DaemonShutdown, AJobThatReformsIsNotTakenForANewOne) {
  form();
  loop.members().engine().restart_data_plane(now);
  loop.end(now);
  turn();
  EXPECT_EQ(plane.count(PacketType::kAbort), 0U);
  for (Peer& p : peers) plane.receive(p, p.join());
  for (int i = 0; i < 4; ++i) turn();
  const members::JobStatus job = loop.members().engine().status(now).at(0);
  EXPECT_EQ(job.name, "resnet");
  EXPECT_EQ(job.phase, members::JobPhase::kRunning);
}

TEST_F(DaemonShutdown, CountersOfWithdrawnJobsStayOfInterest) {
  form();
  loop.end(now);
  loop.turn(now + 11 * kSecond);
  EXPECT_TRUE(loop.members().engine().status(now).empty());
  ASSERT_EQ(loop.members().watch().jobs().size(), 2U);
  EXPECT_EQ(loop.members().watch().jobs().begin()->second.name, "resnet");
}

}  // namespace
}  // namespace tally::daemon_test
