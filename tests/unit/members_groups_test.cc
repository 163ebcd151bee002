// Groups: jobs that a JOIN makes, because a declared job admits them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "members/groups.h"
#include "members_support.h"

namespace tally::members_test {
namespace {

using members::MembershipDrop;
using testing::HasSubstr;

constexpr TimeNs kIdle = 20 * kSecond;

struct MembersGroups : testing::Test, Bench {
  members::NativeConfig config = [] {
    members::NativeConfig c = config_of(4);
    c.priority = 7;
    c.admit = {{.groups = 2, .idle = kIdle}};
    return c;
  }();
  JobId parent = declare(config);

  static Peer peer(std::uint16_t rank, std::uint16_t world, const std::string& group = "resnet/0") {
    Peer p(rank, world);
    p.job = group;
    p.instance += std::hash<std::string>{}(group) % 1'000;
    return p;
  }
  [[nodiscard]] std::vector<members::JobStatus> groups() const {
    std::vector<members::JobStatus> all;
    for (const auto& job : members->status(now))
      if (!job.group_of.empty()) all.push_back(job);
    return all;
  }
  // What a JOIN is told that is refused.
  std::string refusal(Peer& p) {
    const Sent sent = only(send(p, p.join()), PacketType::kJoined, p);
    EXPECT_EQ(sent.status(), JoinStatus::kRefused);
    EXPECT_TRUE(groups().size() <= 2);
    return sent.text();
  }
  std::uint64_t dropped(MembershipDrop why) const { return members->counters().of(why); }
};

TEST_F(MembersGroups, TheFirstJoinMakesOneWithTheKeysOfItsJobAndItsOwnWorld) {
  std::vector<Peer> peers{peer(0, 2), peer(1, 2)};
  ASSERT_TRUE(form(peers));
  const auto all = groups();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "resnet/0");
  EXPECT_EQ(all[0].group_of, "resnet");
  EXPECT_EQ(all[0].world, 2U);
  EXPECT_EQ(all[0].priority, 7U);
  EXPECT_EQ(all[0].phase, members::JobPhase::kRunning);
  EXPECT_NE(all[0].id, parent);
  EXPECT_EQ(members->group_of("resnet/0"), "resnet");
  EXPECT_EQ(members->group_of("resnet"), "");
}

TEST_F(MembersGroups, ItsJobMayRunBesideIt) {
  std::vector<Peer> all{Peer(0, 4), Peer(1, 4), Peer(2, 4), Peer(3, 4)};
  std::vector<Peer> some{peer(0, 2), peer(1, 2)};
  ASSERT_TRUE(form(all));
  ASSERT_TRUE(form(some));
  EXPECT_EQ(members->running(), 2U);
}

TEST_F(MembersGroups, OnlyWhoHasTheTokenMakesOne) {
  Peer p = peer(0, 2);
  p.token = "guessed";
  EXPECT_THAT(refusal(p), HasSubstr("job 'resnet/0': wrong token"));
  EXPECT_EQ(dropped(MembershipDrop::kToken), 1U);
  EXPECT_TRUE(groups().empty());
}

// Without it anybody could make the box hold jobs for addresses that are not his.
TEST_F(MembersGroups, OnlyAJoinWithAFreshChallengeMakesOne) {
  Peer p = peer(0, 2);
  const auto sent = send_bare(p, p.join());
  EXPECT_EQ(only(sent, PacketType::kChallenge, p).type(), PacketType::kChallenge);
  EXPECT_TRUE(groups().empty());
}

TEST_F(MembersGroups, OnlyJobsThatSaySoHaveThem) {
  config.name = "alone";
  config.admit.reset();
  declare(config);
  Peer p = peer(0, 2, "alone/0");
  EXPECT_THAT(refusal(p), HasSubstr("is not declared on this box"));
  EXPECT_EQ(dropped(MembershipDrop::kUnknownJob), 1U);
}

TEST_F(MembersGroups, TheirNamesAreThatOfTheirJobAndOthersLikeIt) {
  EXPECT_EQ(members::parent_name("resnet/0"), "resnet");
  EXPECT_EQ(members::parent_name("resnet/dp/ranks-0.3"), "resnet");
  for (const char* const none : {"resnet", "", "/", "/0", "resnet/", "resnet//0", "resnet/0/", "resnet/-",
                                 "resnet/a b", "resnet/a\x7f", "resnet/\xc3\xa4", "resnet/dp/../0"}) {
    EXPECT_EQ(members::parent_name(none), "") << none;
  }
  Peer p = peer(0, 2, "resnet/a b");
  EXPECT_THAT(refusal(p), HasSubstr("is not declared on this box"));
  Peer q = peer(0, 2, "/0");
  EXPECT_THAT(refusal(q), HasSubstr("is not declared on this box"));
  std::vector<Peer> deep{peer(0, 1, "resnet/dp/0")};
  ASSERT_TRUE(form(deep));
  EXPECT_EQ(members->group_of("resnet/dp/0"), "resnet");
}

TEST_F(MembersGroups, OneHasNoMoreWorkersThanItsJob) {
  Peer p = peer(0, 5);
  EXPECT_THAT(refusal(p), HasSubstr("has at most its 4 workers, this worker expects 5"));
  EXPECT_EQ(dropped(MembershipDrop::kWorld), 1U);
  Peer q = peer(3, 3);
  EXPECT_THAT(refusal(q), HasSubstr("rank 3 is none of a group of 3 workers"));
  EXPECT_EQ(dropped(MembershipDrop::kRank), 1U);
}

TEST_F(MembersGroups, WhoExpectsAnotherWorldThanTheFirstIsRefused) {
  Peer first = peer(0, 2);
  (void)send(first, first.join());
  Peer p = peer(1, 3);
  EXPECT_THAT(refusal(p), HasSubstr("has 2 workers here, this worker expects 3"));
}

TEST_F(MembersGroups, NoMoreThanItsJobMayHave) {
  std::vector<Peer> a{peer(0, 1, "resnet/a")};
  std::vector<Peer> b{peer(0, 1, "resnet/b")};
  ASSERT_TRUE(form(a));
  ASSERT_TRUE(form(b));
  Peer c = peer(0, 1, "resnet/c");
  EXPECT_THAT(refusal(c), HasSubstr("job 'resnet' has 2 groups already, as many as it may have"));
  EXPECT_EQ(dropped(MembershipDrop::kGroups), 1U);
  EXPECT_EQ(groups().size(), 2U);
}

// What a host asks for beyond its budget is not answered: its workers ask again, and get it then.
TEST_F(MembersGroups, AHostMakesTenInASecond) {
  config.admit->groups = 100;
  ASSERT_TRUE(members->change(config, now));
  std::vector<Peer> peers;
  for (int i = 0; i < 12; ++i) peers.push_back(peer(0, 1, "resnet/" + std::to_string(i)));
  for (Peer& p : peers) (void)send(p, p.join());
  EXPECT_EQ(groups().size(), 10U);
  EXPECT_EQ(dropped(MembershipDrop::kRate), 2U);
  (void)advance(kSecond);
  for (Peer& p : peers) (void)send(p, p.join());
  EXPECT_EQ(groups().size(), 12U);
}

TEST_F(MembersGroups, OneInWhichNobodyWasForLongIsForgottenAndCanBeMadeAgain) {
  std::vector<Peer> peers{peer(0, 2), peer(1, 2)};
  ASSERT_TRUE(form(peers));
  for (int i = 0; i < 10; ++i) {  // while somebody is in it, it stays
    (void)advance(kIdle / 5);
    for (const Peer& p : peers) (void)send(p, p.heartbeat());
  }
  ASSERT_EQ(groups().size(), 1U);
  for (const Peer& p : peers) (void)send(p, p.leave());
  (void)advance(kIdle - kSecond);
  ASSERT_EQ(groups().size(), 1U);
  EXPECT_EQ(groups()[0].phase, members::JobPhase::kEnded);
  (void)advance(kSecond);
  EXPECT_TRUE(groups().empty());
  EXPECT_EQ(members->declared(), 1U) << "its name, too";
  for (Peer& p : peers) p.restart();
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(groups().size(), 1U);
}

TEST_F(MembersGroups, AFirstWorkerThatGoesAgainLeavesNoneBehind) {
  Peer p = peer(0, 2);
  (void)send(p, p.join());
  ASSERT_EQ(groups().size(), 1U);
  (void)advance(60 * kSecond + kIdle);
  EXPECT_TRUE(groups().empty());
}

TEST_F(MembersGroups, TheyGoWithTheirJob) {
  std::vector<Peer> peers{peer(0, 2), peer(1, 2)};
  ASSERT_TRUE(form(peers));
  ASSERT_TRUE(members->withdraw("resnet", "the job was removed"));
  const auto sent = settle();
  for (const Peer& p : peers) EXPECT_THAT(only(sent, PacketType::kAbort, p).text(), HasSubstr("was removed"));
  EXPECT_EQ(members->declared(), 0U);
  EXPECT_EQ(members->deadline(), kNever);
}

// The workers of a group that the box has forgotten are told so, under the key that a group of that name has,
// and make it again in the generation that they have.
TEST_F(MembersGroups, AfterARestartOfTheBoxTheyGoOn) {
  std::vector<Peer> peers{peer(0, 2), peer(1, 2)};
  ASSERT_TRUE(form(peers));
  const auto generation = groups().at(0).generation;
  forget_everything();
  EXPECT_TRUE(groups().empty());
  const Sent told = only(send(peers[0], peers[0].heartbeat()), PacketType::kReject, peers[0]);
  EXPECT_TRUE(auth::verify(peers[0].job_key(), told.header, told.payload));
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(groups().at(0).generation, generation);
}

TEST_F(MembersGroups, TheLimitChangesAtOnceAndDisturbsNobody) {
  std::vector<Peer> all{Peer(0, 4), Peer(1, 4), Peer(2, 4), Peer(3, 4)};
  ASSERT_TRUE(form(all));
  config.admit->groups = 1;
  ASSERT_TRUE(members->change(config, now));
  EXPECT_TRUE(settle().empty());
  EXPECT_FALSE(status(parent).deferred);
  EXPECT_EQ(status(parent).phase, members::JobPhase::kRunning);
  std::vector<Peer> a{peer(0, 1, "resnet/a")};
  ASSERT_TRUE(form(a));
  config.admit.reset();
  ASSERT_TRUE(members->change(config, now));
  Peer b = peer(0, 1, "resnet/b");
  EXPECT_THAT(refusal(b), HasSubstr("is not declared on this box"));
  EXPECT_EQ(groups().size(), 1U) << "those that there are stay";
}

TEST_F(MembersGroups, ABoxThatClosesAdmitsNone) {
  std::vector<Peer> all{Peer(0, 4), Peer(1, 4), Peer(2, 4), Peer(3, 4)};
  ASSERT_TRUE(form(all));
  EXPECT_EQ(members->close("the box is shutting down"), 1U);
  Peer p = peer(0, 1);
  EXPECT_THAT(refusal(p), HasSubstr("the box is shutting down"));
}

// The job that nobody is in goes at once; its group, which runs, may end in peace.
TEST_F(MembersGroups, ABoxThatClosesLetsThemEnd) {
  std::vector<Peer> peers{peer(0, 2), peer(1, 2)};
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(members->close("the box is shutting down"), 1U);
  EXPECT_EQ(groups().at(0).group_of, "resnet");
  EXPECT_EQ(groups().at(0).phase, members::JobPhase::kRunning);
  for (const Peer& p : peers) (void)send(p, p.leave());
  EXPECT_EQ(members->close("the box is shutting down"), 0U);
}

TEST_F(MembersGroups, WhatItsJobHasReservedIsNotGivenAgain) {
  members::NativeConfig sharer = sharer_of(4, Discipline::kShared, "shares");
  sharer.quota = {.reserved_ppm = 900'000, .weight = 3, .cap_ppm = 950'000};
  sharer.stragglers = {{50 * kMillisecond, 3}};
  sharer.admit.emplace();
  const auto group = members::group_config(sharer, "shares/0", 2);
  EXPECT_EQ(group.quota, (members::Quota{.reserved_ppm = 0, .weight = 3, .cap_ppm = 950'000}));
  EXPECT_EQ(group.workers, 2U);
  EXPECT_EQ(group.stragglers->least, 2U);
  EXPECT_FALSE(group.admit.has_value()) << "no groups of groups";
  EXPECT_EQ(group.name, "shares/0");
}

}  // namespace
}  // namespace tally::members_test
