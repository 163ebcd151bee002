// A running pool job gets another window: a new epoch of the same generation.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

struct MembersResize : testing::Test, Bench {
  JobId id = declare(config_of(2));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  MembersResize() {
    EXPECT_TRUE(form(peers));
    for (auto& p : peers) p.lowest = p.next = 1'000U + p.rank;
  }
  std::string refusal(std::uint32_t window, const std::string& name = "resnet") {
    const auto done = members->resize(name, window, now);
    EXPECT_FALSE(done) << window;
    return done ? "" : done.error().text();
  }
};

TEST_F(MembersResize, ShrinksAndGrowsWithinItsGeneration) {
  const Peer before = peers[0];
  const members::JobStatus was = status(id);
  ASSERT_TRUE(members->resize("resnet", 64, now));
  const auto sent = settle();
  for (const auto& p : peers) {
    const Sent hint = only(sent, PacketType::kReject, p);
    EXPECT_EQ(hint.header.slot.host(), 1U);
    EXPECT_EQ(hint.header.epoch.host(), before.epoch);
  }
  EXPECT_EQ(status(id).phase, members::JobPhase::kForming);
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(status(id).window, 64U);
  EXPECT_EQ(status(id).generation, was.generation);
  EXPECT_EQ(peers[0].last, before.last) << "largest window, lookahead and numbering stay";
  EXPECT_NE(peers[0].epoch, before.epoch);
  EXPECT_EQ(row(id)->window, 64U);
  EXPECT_EQ(row(id)->span, 512U) << "what may still be asked for is as much as before";
  EXPECT_EQ(row(id)->slots, (jobs::LineRange{0, jobs::pool_lines(64, 1, 352)}));

  ASSERT_TRUE(members->resize("resnet", 256, now));
  settle();
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(status(id).window, 256U);
  EXPECT_EQ(status(id).slots, was.slots);
  EXPECT_EQ(peers[0].last, before.last);
}

TEST_F(MembersResize, OldLinesAreItsOwnUntilTheNewRowIsPublished) {
  const jobs::LineRange old = status(id).slots;
  ASSERT_TRUE(members->resize("resnet", 16, now));
  settle();
  send(peers[0], peers[0].join());
  EXPECT_EQ(status(id).slots, old);
  EXPECT_TRUE(freed.empty());
  EXPECT_EQ(row(id), nullptr);
  members->receive(with_challenge(peers[1], peers[1].join()), peers[1].binding, now);
  const auto publication = members->publication();
  ASSERT_TRUE(publication);
  ASSERT_NE(publication->table->find(id), nullptr);
  EXPECT_EQ(publication->table->find(id)->window, 16U);
  ASSERT_EQ(publication->freed.size(), 1U);
  EXPECT_EQ(publication->freed[0].lines, old);
  EXPECT_EQ(publication->freed[0].elements, 352);
}

TEST_F(MembersResize, RefusesAWindowThatItsGenerationHasNoRoomForAndDisturbsNobody) {
  EXPECT_THAT(refusal(512), HasSubstr("window is 512; the largest of this generation is 256"));
  EXPECT_THAT(refusal(64, "bert"), HasSubstr("no job of this name"));
  EXPECT_TRUE(members->resize("resnet", 256, now)) << "it has that";
  EXPECT_FALSE(members->publication());
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(status(id).phase, members::JobPhase::kRunning);
}

TEST_F(MembersResize, AJobThatHasNotBegunTakesItWhenItForms) {
  const JobId other = declare(config_of(2, "bert"));
  std::vector<Peer> others{Peer(0), Peer(1)};
  for (Peer& p : others) p.job = "bert";
  ASSERT_TRUE(members->resize("bert", 64, now));
  EXPECT_EQ(status(other).phase, members::JobPhase::kDeclared);
  EXPECT_EQ(status(other).wanted_window, 64U);
  send(others[0], others[0].join());
  ASSERT_TRUE(members->resize("bert", 1'024, now)) << "no generation bounds it";
  ASSERT_TRUE(form(others));
  EXPECT_EQ(status(other).window, 1'024U);
}

TEST_F(MembersResize, RefusesAJobThatDrainsOrIsCalledBack) {
  ASSERT_TRUE(members->resize("resnet", 64, now));
  settle();
  EXPECT_THAT(refusal(32), HasSubstr("this one is forming"));
  ASSERT_TRUE(form(peers));
  EXPECT_EQ(status(id).window, 64U);
  send(peers[0], peers[0].leave());
  EXPECT_THAT(refusal(32), HasSubstr("this one is draining"));
}

TEST(MembersResizeShared, IsRefused) {
  Bench bench(shared_box(1'000, 64));
  bench.declare(sharer_of(1, Discipline::kShared));
  std::vector<Peer> peers{Peer(0, 1)};
  ASSERT_TRUE(bench.form(peers));
  const auto done = bench.members->resize("resnet", 64, bench.now);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().text(), HasSubstr("it shares slots"));
}

TEST_F(MembersResize, MemberThatDoesNotComeBackEndsTheJob) {
  ASSERT_TRUE(members->resize("resnet", 64, now));
  settle();
  send(peers[0], peers[0].join());
  TimeNs waited = 0;
  std::vector<Sent> sent;
  for (; status(id).phase == members::JobPhase::kForming && waited < 20 * kSecond; waited += kSecond) {
    send(peers[0], peers[0].join());
    const auto some = advance(kSecond);
    sent.insert(sent.end(), some.begin(), some.end());
  }
  EXPECT_EQ(waited, 10 * kSecond);
  EXPECT_EQ(status(id).phase, members::JobPhase::kAborted);
  EXPECT_THAT(status(id).reason, HasSubstr("rank 1 at 10.0.0.1 was silent"));
  EXPECT_EQ(count_of(sent, PacketType::kAbort, peers[0]), 1U);
}

// What it gave is another's now: it gets the largest window that fits, at least what it had.
TEST(MembersResizeRoom, GrowthTakesWhatIsFree) {
  Bench bench(jobs::pool_lines(256, 1, 352));
  const JobId id = bench.declare(config_of(1));
  members::NativeConfig config = config_of(1, "bert");
  config.window = 64;
  const JobId bert = bench.declare(config);
  std::vector<Peer> peers{Peer(0, 1)};
  std::vector<Peer> others{Peer(0, 1)};
  others[0].job = "bert";
  others[0].binding.udp_port = 50'000;
  ASSERT_TRUE(bench.form(peers));
  ASSERT_TRUE(bench.members->resize("resnet", 64, bench.now));
  bench.settle();
  ASSERT_TRUE(bench.form(peers));
  ASSERT_TRUE(bench.form(others));
  ASSERT_TRUE(bench.members->resize("resnet", 256, bench.now));
  bench.settle();
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.status(id).window, 128U);
  EXPECT_EQ(bench.status(bert).window, 64U);
}

}  // namespace
}  // namespace tally::members_test
