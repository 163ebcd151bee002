// Another configuration for a job that is declared: what a job that runs takes at once, and what waits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

struct MembersChange : testing::Test, Bench {
  members::NativeConfig config = config_of(2);
  JobId id = declare(config);
  std::vector<Peer> peers{Peer(0), Peer(1)};
  MembersChange() {
    EXPECT_TRUE(form(peers));
    for (auto& p : peers) p.lowest = p.next = 1'000U + p.rank;
  }
  void change() { EXPECT_TRUE(members->change(config, now)); }
  void part() {  // all leave, and are other processes from now on
    for (const Peer& p : peers) send(p, p.leave());
    for (Peer& p : peers) p.restart();
  }
};

TEST_F(MembersChange, ARunningJobGoesOnInItsGenerationWithAnotherLeaseAndStragglers) {
  const auto generation = status(id).generation;
  const auto epoch = peers[0].epoch;
  config.lease = 3 * kSecond;
  config.stragglers = {{50 * kMillisecond, 1}};
  change();
  const auto sent = settle();
  for (const Peer& p : peers) (void)only(sent, PacketType::kReject, p);
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(status(id).generation, generation);
  EXPECT_NE(peers[0].epoch, epoch);
  EXPECT_EQ(status(id).lease, 3 * kSecond);
  EXPECT_EQ(row(id)->stragglers.least, 1U);
  EXPECT_FALSE(status(id).deferred);
}

TEST_F(MembersChange, ThePriorityOfAPoolDisturbsNobody) {
  config.priority = 7;
  change();
  const auto sent = settle();
  EXPECT_TRUE(sent.empty());
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
  EXPECT_EQ(row(id)->max_priority, 7U);
}

TEST_F(MembersChange, QuotasOfRateDisturbNobody) {
  EXPECT_FALSE(row(id)->limits_packets);
  EXPECT_EQ(row(id)->rates.bad_packets->per_second, 10'000U);
  config.packet_rate = 1'000'000;
  config.bad_packet_rate.reset();
  change();
  EXPECT_TRUE(settle().empty());
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
  EXPECT_FALSE(status(id).deferred);
  EXPECT_TRUE(row(id)->limits_packets);
  EXPECT_EQ(row(id)->rates.packets->per_second, 1'000'000U);
  EXPECT_FALSE(row(id)->rates.bad_packets);
}

// Cores share it, and whatever a job may have on its way it may send, and send again, at once.
TEST(MembersRates, CoresShareWhatAJobMaySend) {
  members::NativeConfig job;
  job.workers = 8;
  job.window = 256;
  job.packet_rate = 100'000;
  const jobs::RateLimits limits = members::rate_limits(job, 4);
  EXPECT_EQ(limits.packets->per_second, 25'000U);
  EXPECT_EQ(limits.packets->burst, 2U * 8 * 256 / 4);
  EXPECT_EQ(limits.bad_packets->per_second, 2'500U);
  EXPECT_EQ(limits.bad_packets->burst, 250U);
  job.packet_rate = 1'000'000'000;
  EXPECT_EQ(members::rate_limits(job, 1).packets->burst, 10'000'000U) << "10 ms of it";
  members::SessionConfig session;
  session.members.resize(3);
  session.slots = 512;
  session.packet_rate = 1'000;
  EXPECT_EQ(members::rate_limits(session).packets->per_second, 1'000U) << "one core does its work";
  EXPECT_EQ(members::rate_limits(session).packets->burst, 2U * 3 * 512);
  EXPECT_FALSE(members::rate_limits(session).bad_packets);
}

TEST_F(MembersChange, ANewTokenWaitsUntilNobodyIsInTheJob) {
  config.token = "another";
  change();
  EXPECT_TRUE(settle().empty());
  EXPECT_TRUE(status(id).deferred);
  // The living session goes on with the old one: it is heard, called back, and comes again.
  EXPECT_EQ(send(peers[0], peers[0].heartbeat()).size(), 1U);
  config.lease = 3 * kSecond;
  change();
  settle();
  ASSERT_TRUE(form(peers));
  EXPECT_TRUE(status(id).deferred);
  part();
  EXPECT_FALSE(status(id).deferred);
  EXPECT_THAT(only(send(peers[0], peers[0].join()), PacketType::kJoined, peers[0]).text(),
              HasSubstr("wrong token"));
  for (Peer& p : peers) p.token = "another";
  EXPECT_TRUE(form(peers));
}

TEST_F(MembersChange, WhoHasNotHeardOfTheEndIsToldUnderTheTokenItKnows) {
  config.token = "another";
  change();
  ASSERT_TRUE(members->abort("resnet", "over", now));
  const Peer& late = peers[0];
  settle();  // the ABORT is lost
  ASSERT_FALSE(status(id).deferred);
  const auto sent = send(late, late.heartbeat());
  const Sent told = only(sent, PacketType::kAbort, late);
  EXPECT_TRUE(late.believes(told));
  EXPECT_THAT(told.text(), HasSubstr("over"));
}

TEST_F(MembersChange, AnotherNumberOfWorkersAndAnotherDisciplineAreForTheNextGeneration) {
  config.workers = 3;
  config.results = ResultsMode::kMulticast;
  config.window = 64;
  change();
  settle();
  ASSERT_TRUE(form(peers)) << "the window came at once";
  EXPECT_EQ(status(id).window, 64U);
  EXPECT_EQ(status(id).world, 2U);
  EXPECT_TRUE(status(id).deferred);
  part();
  EXPECT_EQ(status(id).world, 3U);
  std::vector<Peer> three{Peer(0, 3), Peer(1, 3), Peer(2, 3)};
  for (Peer& p : three) p.instance += 1'000;  // other processes
  ASSERT_TRUE(form(three));
  EXPECT_EQ(row(id)->results, ResultsMode::kMulticast);
}

TEST_F(MembersChange, TheLastWordCounts) {
  config.workers = 3;
  change();
  config.workers = 2;
  change();
  EXPECT_FALSE(status(id).deferred);
  part();
  EXPECT_EQ(status(id).world, 2U);
}

TEST_F(MembersChange, WhereNobodyIsEverythingAppliesAtOnce) {
  part();
  config.workers = 1;
  config.token = "another";
  change();
  EXPECT_FALSE(status(id).deferred);
  std::vector<Peer> one{Peer(0, 1)};
  one[0].token = "another";
  one[0].instance += 1'000;
  EXPECT_TRUE(form(one));
}

TEST_F(MembersChange, ARankThatAsksWhileTheJobBecomesAnotherIsLookedAtAgain) {
  config.workers = 1;
  change();
  // Rank 1 lost its membership: that ends the job, and with it the place that rank 1 had.
  Peer lost = peers[1];
  lost.last = {};
  send(peers[0], peers[0].heartbeat());
  send(peers[1], peers[1].heartbeat());
  send(lost, lost.join());
  settle();
  EXPECT_EQ(status(id).world, 1U);
  EXPECT_EQ(status(id).ranks.size(), 1U);
  EXPECT_THAT(only(send(lost, lost.join()), PacketType::kJoined, lost).text(),
              HasSubstr("has 1 workers here"));
}

TEST_F(MembersChange, WhatCannotBeChangesNothing) {
  const auto refused = [&] {
    const auto done = members->change(config, now);
    return done ? std::string() : done.error().text();
  };
  config.lease = 3 * kSecond;
  config.window = 512;
  EXPECT_THAT(refused(), HasSubstr("the largest of this generation is 256"));
  EXPECT_EQ(status(id).lease, config_of(2).lease);
  config.window = 64;
  change();
  settle();
  config.lease = 4 * kSecond;
  EXPECT_THAT(refused(), HasSubstr("this one is forming"));
  config.name = "none";
  EXPECT_THAT(refused(), HasSubstr("no job of this name"));
}

TEST(MembersChangeShared, AQuotaThatReservesMoreThanIsLeftIsRefusedAndEndsNothing) {
  Bench bench(shared_box(1'000, 64));
  members::NativeConfig one = sharer_of(1, Discipline::kShared, "one");
  members::NativeConfig two = sharer_of(1, Discipline::kShared, "two");
  one.quota.reserved_ppm = two.quota.reserved_ppm = 500'000;
  const JobId id = bench.declare(one);
  bench.declare(two);
  std::vector<Peer> first{Peer(0, 1)};
  std::vector<Peer> second{Peer(0, 1)};
  second[0].restart();
  first[0].job = "one";
  second[0].job = "two";
  ASSERT_TRUE(bench.form(first));
  ASSERT_TRUE(bench.form(second));
  one.quota.reserved_ppm = 600'000;
  EXPECT_FALSE(bench.members->change(one, bench.now));
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kRunning);
  one.quota.reserved_ppm = 250'000;
  ASSERT_TRUE(bench.members->change(one, bench.now));
  bench.settle();
  ASSERT_TRUE(bench.form(first));
  EXPECT_EQ(bench.status(id).reserved, 16U);
}

}  // namespace
}  // namespace tally::members_test
