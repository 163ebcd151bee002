// Slot memory: the allocator, admission, and lines that change hands.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "members/slot_allocator.h"
#include "members_support.h"
#include "tally/mix64.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

TEST(MembersSlots, FirstFitTakesTheLowestHole) {
  members::SlotAllocator a(100);
  const auto x = a.allocate(30);
  const auto y = a.allocate(30);
  const auto z = a.allocate(40);
  EXPECT_EQ(x, (jobs::LineRange{0, 30}));
  EXPECT_EQ(z, (jobs::LineRange{60, 40}));
  EXPECT_FALSE(a.allocate(1));
  EXPECT_FALSE(a.allocate(0));
  a.release(*x);
  a.release(*z);
  EXPECT_EQ(a.free_lines(), 70U);
  EXPECT_EQ(a.largest_hole(), 40U);
  EXPECT_EQ(a.allocate(10), (jobs::LineRange{0, 10}));
  EXPECT_EQ(a.allocate(21), (jobs::LineRange{60, 21}));
  a.release(*y);
  EXPECT_EQ(a.allocate(50), (jobs::LineRange{10, 50}));
}

TEST(MembersSlots, HighTakesTheEndOfTheHighestHole) {
  members::SlotAllocator a(100);
  const auto x = a.allocate_high(30);
  EXPECT_EQ(x, (jobs::LineRange{70, 30}));
  EXPECT_EQ(a.allocate(60), (jobs::LineRange{0, 60}));
  a.release(*x);
  EXPECT_EQ(a.allocate_high(5), (jobs::LineRange{95, 5}));
  EXPECT_FALSE(a.allocate_high(36));
  EXPECT_FALSE(a.allocate_high(0));
  EXPECT_EQ(a.allocate_high(35), (jobs::LineRange{60, 35}));
  EXPECT_EQ(a.free_lines(), 0U);
}

TEST(MembersSlots, RangesNeverOverlapAndAllComesBack) {
  constexpr std::uint32_t kLines = 1000;
  members::SlotAllocator a(kLines);
  std::vector<jobs::LineRange> held;
  std::vector<bool> taken(kLines);
  std::uint64_t state = 7;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t r = mix64(state += 0x9e3779b97f4a7c15ULL);
    if (r % 2 == 0 || held.empty()) {
      const auto count = static_cast<std::uint32_t>(1 + (r >> 8) % 200);
      const std::uint32_t largest = a.largest_hole();
      const auto got = (r >> 32) % 3 == 0 ? a.allocate_high(count) : a.allocate(count);
      ASSERT_EQ(got.has_value(), count <= largest);
      if (!got) continue;
      ASSERT_EQ(got->count, count);
      ASSERT_LE(got->first + got->count, kLines);
      for (std::uint32_t i = 0; i < count; ++i) {
        ASSERT_FALSE(taken[got->first + i]);
        taken[got->first + i] = true;
      }
      held.push_back(*got);
    } else {
      std::swap(held[(r >> 8) % held.size()], held.back());
      for (std::uint32_t i = 0; i < held.back().count; ++i) taken[held.back().first + i] = false;
      a.release(held.back());
      held.pop_back();
    }
    const auto used = static_cast<std::uint32_t>(std::count(taken.begin(), taken.end(), true));
    ASSERT_EQ(a.free_lines(), kLines - used);
  }
  for (const auto& h : held) a.release(h);
  EXPECT_EQ(a.largest_hole(), kLines);
}

TEST(MembersAdmission, GrantsTheLargestWindowThatFits) {
  Bench bench(jobs::pool_lines(64, 1, 352) + 5);
  const JobId id = bench.declare(config_of(2));
  std::vector<Peer> peers{Peer(0), Peer(1)};
  ASSERT_TRUE(bench.form(peers));
  EXPECT_EQ(bench.status(id).window, 64U);
  EXPECT_EQ(bench.status(id).largest_window, 64U);
  EXPECT_EQ(peers[0].last.lookahead.host(), 64U);
  EXPECT_EQ(bench.row(id)->slots, (jobs::LineRange{0, jobs::pool_lines(64, 1, 352)}));
}

TEST(MembersAdmission, RefusesWithNumbers) {
  Bench bench(jobs::pool_lines(16, 1, 352) - 1);
  const JobId id = bench.declare(config_of(2));
  Peer a(0);
  Peer b(1);
  bench.send(a, a.join());
  const auto sent = bench.send(b, b.join());
  EXPECT_EQ(sent.size(), 2U);
  for (const Peer* p : {&a, &b}) {
    const Sent s = only(sent, PacketType::kJoined, *p);
    EXPECT_EQ(s.status(), JoinStatus::kRefused);
    EXPECT_EQ(s.joined().nonce.host(), p->nonce);
    EXPECT_EQ(
        s.text(),
        "admission: job 'resnet' needs 46 KiB of slot memory per core for its smallest window (16 chunks of "
        "352 elements); 46 KiB of 46 KiB are free, the largest hole has 46 KiB: raise dataplane.slots or "
        "give other jobs less");
  }
  EXPECT_EQ(bench.status(id).phase, members::JobPhase::kDeclared);
  EXPECT_THAT(bench.status(id).reason, HasSubstr("admission"));
  EXPECT_EQ(bench.row(id), nullptr);
}

struct TwoJobs : Bench {
  explicit TwoJobs(std::uint32_t lines) : Bench(lines) {}
  JobId first = declare(config_of(2, "a"));
  JobId second = declare(config_of(2, "b"));
  std::vector<Peer> as{Peer(0), Peer(1)};
  std::vector<Peer> bs{Peer(0), Peer(1)};
  void name_them() {
    for (auto& p : as) p.job = jobs[0].name;
    for (auto& p : bs) {
      p.job = jobs[1].name;
      p.binding.udp_port = static_cast<std::uint16_t>(p.binding.udp_port + 100);
    }
  }
};

TEST(MembersAdmission, LinesThatChangeHandsAreFreedFirst) {
  TwoJobs box(jobs::pool_lines(256, 1, 352));
  box.name_them();
  ASSERT_TRUE(box.form(box.as));
  const jobs::LineRange slots = box.status(box.first).slots;
  Peer b0 = box.bs[0];
  EXPECT_EQ(only(box.send(b0, b0.join()), PacketType::kJoined, b0).status(), JoinStatus::kForming);
  Peer b1 = box.bs[1];
  EXPECT_EQ(only(box.send(b1, b1.join()), PacketType::kJoined, b1).status(), JoinStatus::kRefused);
  // Both in one publication: the range leaves one job and enters the other.
  for (const auto& p : box.as) box.members->receive(p.leave(), p.binding, box.now);
  for (Peer* b : {&b0, &b1}) {
    box.challenge(*b);
    box.members->receive(box.with_challenge(*b, b->join()), b->binding, box.now);
  }
  const auto publication = box.members->publication();
  ASSERT_TRUE(publication);
  EXPECT_FALSE(box.members->publication());
  EXPECT_EQ(publication->table->find(box.first), nullptr);
  ASSERT_NE(publication->table->find(box.second), nullptr);
  EXPECT_EQ(publication->table->find(box.second)->slots, slots);
  ASSERT_EQ(publication->freed.size(), 1U);
  EXPECT_EQ(publication->freed[0].job, box.first);
  EXPECT_EQ(publication->freed[0].lines, slots);
  EXPECT_EQ(publication->freed[0].elements, 352);
}

TEST(MembersAdmission, RunningJobsHoldDisjointLines) {
  TwoJobs box(jobs::pool_lines(256, 1, 352) + jobs::pool_lines(32, 1, 352));
  box.name_them();
  ASSERT_TRUE(box.form(box.as));
  ASSERT_TRUE(box.form(box.bs));
  EXPECT_EQ(box.status(box.second).window, 32U);
  EXPECT_EQ(box.row(box.second)->slots.first, jobs::pool_lines(256, 1, 352));
  EXPECT_NE(box.as[0].epoch, box.bs[0].epoch);
}

TEST(MembersAdmission, ShrunkWindowGrowsBackWithinItsGeneration) {
  TwoJobs box(jobs::pool_lines(256, 1, 352));
  box.name_them();
  ASSERT_TRUE(box.form(box.as));
  const GenerationRecord record = box.as[0].last;
  // After a loss of state the other job is first.
  box.jobs[1].window = 64;
  box.forget_everything();
  ASSERT_TRUE(box.form(box.bs));
  ASSERT_TRUE(box.form(box.as));
  EXPECT_EQ(box.status(box.first).window, 128U);
  EXPECT_EQ(box.as[0].last, record);
  EXPECT_EQ(box.row(box.first)->span, 512U);
  for (const auto& p : box.bs) box.send(p, p.leave());
  box.members->restart_data_plane(box.now);
  box.settle();
  ASSERT_TRUE(box.form(box.as));
  EXPECT_EQ(box.status(box.first).window, 256U);
  EXPECT_EQ(box.as[0].last, record);
}

TEST(MembersAdmission, GenerationThatNoLongerFitsIsRefusedAfterALoss) {
  TwoJobs box(jobs::pool_lines(256, 1, 352));
  box.name_them();
  ASSERT_TRUE(box.form(box.as));
  box.jobs[0].window = 16;
  box.jobs[1].window = 256;
  box.forget_everything();
  ASSERT_TRUE(box.form(box.bs));
  box.send(box.as[0], box.as[0].join());
  const auto sent = box.send(box.as[1], box.as[1].join());
  for (const auto& p : box.as) EXPECT_THAT(only(sent, PacketType::kJoined, p).text(), HasSubstr("admission"));
}

TEST(MembersAdmission, NewGenerationThatDoesNotFitAbortsTheOld) {
  TwoJobs box(jobs::pool_lines(256, 1, 16) + jobs::pool_lines(128, 1, 352) + 1000);
  box.name_them();
  box.jobs[0].elements = 2224;
  box.forget_everything();
  for (auto& p : box.as) p.elements = 16;
  ASSERT_TRUE(box.form(box.as));
  ASSERT_TRUE(box.form(box.bs));
  box.members->restart_data_plane(box.now);
  box.settle();
  ASSERT_TRUE(box.form(box.bs));
  for (auto& p : box.as) p.elements = 2224;
  box.as[0].last = {};
  box.send(box.as[0], box.as[0].join());
  const auto sent = box.send(box.as[1], box.as[1].join());
  for (const auto& p : box.as) {
    EXPECT_THAT(only(sent, PacketType::kAbort, p).text(), HasSubstr("admission"));
    EXPECT_EQ(only(sent, PacketType::kJoined, p).status(), JoinStatus::kRefused);
  }
  EXPECT_EQ(box.status(box.first).phase, members::JobPhase::kAborted);
  EXPECT_EQ(box.status(box.second).phase, members::JobPhase::kRunning);
}

TEST(MembersPublication, FirstIsTheEmptyTableAndNoneFollowsWithoutAChange) {
  members::MembershipEngine members({{2}, 1, 100}, [] { return std::uint64_t{3}; });
  const auto first = members.publication();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->version, 1U);
  EXPECT_EQ(first->table->find(JobId{1}), nullptr);
  EXPECT_TRUE(first->freed.empty());
  EXPECT_FALSE(members.publication());
  members.tick(kSecond);
  members.quiesced(1, kSecond);
  EXPECT_FALSE(members.publication());
}

}  // namespace
}  // namespace tally::members_test
