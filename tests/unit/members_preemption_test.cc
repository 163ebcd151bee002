// A job of higher priority that does not fit takes slot memory from running pools, and gives it back.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "members_support.h"

namespace tally::members_test {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kEntry = jobs::pool_lines(16, 1, 352) / 16;  // lines for one chunk of the window

// A box of one core for so many chunks of window, and jobs of two workers.
struct Rack : Bench {
  explicit Rack(std::uint32_t window) : Bench(window * kEntry) {}

  struct Team {
    JobId id{};
    std::vector<Peer> peers{};
    bool dead = false;  // rank 1 does nothing any more
  };

  Team& add(const std::string& name, std::uint8_t priority, std::uint32_t window,
            TimeNs lease = 30 * kSecond) {
    members::NativeConfig config = config_of(2, name);
    config.priority = priority;
    config.window = window;
    config.lease = lease;
    Team& team = teams.emplace_back();
    team.id = declare(config);
    for (std::uint16_t r = 0; r < 2; ++r) {
      team.peers.emplace_back(r);
      team.peers.back().job = name;
      team.peers.back().binding.udp_port = static_cast<std::uint16_t>(1'000 * teams.size() + r);
    }
    return team;
  }
  // The job's workers ask once; what everybody hears is left in `sent`.
  void ask(Team& team) {
    for (Peer& p : team.peers) {
      if (team.dead && p.rank == 1) continue;
      note(send(p, p.join()));
    }
  }
  void note(const std::vector<Sent>& some) { sent.insert(sent.end(), some.begin(), some.end()); }
  [[nodiscard]] bool called_back(const Team& team) const {
    return std::all_of(team.peers.begin(), team.peers.end(),
                       [&](const Peer& p) { return count_of(sent, PacketType::kReject, p) != 0; });
  }
  void hear(Team& team) {
    for (Peer& p : team.peers) take(p, sent);
  }
  // Everybody who is called back comes, the last job first, until nobody is called any more.
  void obey() {
    bool any = true;
    for (int round = 0; any && round < 20; ++round) {
      any = false;
      for (auto team = teams.rbegin(); team != teams.rend(); ++team) {
        if (!called_back(*team)) continue;
        hear(*team);
        std::erase_if(sent, [&](const Sent& s) {
          return s.type() == PacketType::kReject &&
                 s.to.udp_port / 1'000 == team->peers[0].binding.udp_port / 1'000;
        });
        ask(*team);
        any = true;
      }
    }
    EXPECT_FALSE(any) << "they are called back for ever";
    for (Team& team : teams) hear(team);
  }
  [[nodiscard]] std::uint32_t window(const Team& team) const {
    const members::JobStatus s = status(team.id);
    return s.phase == members::JobPhase::kRunning ? s.window : 0;
  }
  [[nodiscard]] bool refused(const Team& team) const {
    return std::any_of(sent.begin(), sent.end(), [&](const Sent& s) {
      return s.to == team.peers[0].binding && s.type() == PacketType::kJoined &&
             s.status() == JoinStatus::kRefused;
    });
  }
  void beat(Team& team) {
    for (Peer& p : team.peers) note(send(p, p.heartbeat()));
  }

  std::deque<Team> teams;
  std::vector<Sent> sent;
};

TEST(MembersPreemption, TheLowestPriorityGivesFirstAndTheOthersAreNotDisturbed) {
  Rack box(128);
  auto& low = box.add("low", 10, 64);
  auto& middle = box.add("middle", 20, 64);
  auto& urgent = box.add("urgent", 30, 32);
  ASSERT_TRUE(box.form(low.peers));
  ASSERT_TRUE(box.form(middle.peers));
  const std::uint32_t epoch = middle.peers[0].epoch;
  box.ask(urgent);
  EXPECT_TRUE(box.called_back(low));
  EXPECT_FALSE(box.called_back(middle));
  EXPECT_FALSE(box.refused(urgent));
  EXPECT_EQ(box.status(urgent.id).phase, members::JobPhase::kForming);
  EXPECT_EQ(box.status(urgent.id).missing, 0U);
  EXPECT_EQ(box.status(low.id).shrunk_for, "urgent");
  EXPECT_EQ(box.status(low.id).limit, 32U);
  box.obey();
  EXPECT_EQ(box.window(low), 32U);
  EXPECT_EQ(box.window(middle), 64U);
  EXPECT_EQ(box.window(urgent), 32U);
  EXPECT_EQ(low.peers[0].last.largest_window.host(), 64U);
  EXPECT_EQ(middle.peers[0].epoch, epoch);
  EXPECT_NE(urgent.peers[0].epoch, 0U);
}

TEST(MembersPreemption, WhoGivesMostHalvesFirstAmongEqualsAndThenTheNextPriority) {
  Rack box(64 + 32 + 64);
  auto& a = box.add("a", 10, 64);
  auto& b = box.add("b", 10, 32);
  auto& c = box.add("c", 20, 64);
  auto& urgent = box.add("urgent", 30, 128);
  for (auto* team : {&a, &b, &c}) ASSERT_TRUE(box.form(team->peers));
  box.ask(urgent);
  box.obey();
  EXPECT_EQ(box.window(urgent), 64U) << "128 would not fit beside three smallest windows";
  EXPECT_EQ(box.window(a), 16U);
  EXPECT_EQ(box.window(b), 16U);
  EXPECT_EQ(box.window(c), 64U);
}

TEST(MembersPreemption, EqualPriorityGivesNothing) {
  Rack box(64);
  auto& low = box.add("low", 30, 64);
  auto& urgent = box.add("urgent", 30, 64);
  ASSERT_TRUE(box.form(low.peers));
  box.ask(urgent);
  EXPECT_TRUE(box.refused(urgent));
  EXPECT_FALSE(box.called_back(low));
  EXPECT_THAT(box.status(urgent.id).reason, HasSubstr("admission: job 'urgent' needs"));
}

TEST(MembersPreemption, WhatCanNeverFitIsRefusedAndNobodyGives) {
  Rack box(16);
  auto& low = box.add("low", 10, 16);
  auto& urgent = box.add("urgent", 30, 64);
  ASSERT_TRUE(box.form(low.peers));
  box.ask(urgent);
  EXPECT_TRUE(box.refused(urgent));
  EXPECT_FALSE(box.called_back(low));
  EXPECT_EQ(box.status(urgent.id).phase, members::JobPhase::kDeclared);
}

// The window asked for cannot be had in any way; giving helps to half of it.
TEST(MembersPreemption, TakesTheLargestWindowThatCanBeHad) {
  Rack box(64);
  auto& low = box.add("low", 10, 64);
  auto& urgent = box.add("urgent", 30, 64);
  ASSERT_TRUE(box.form(low.peers));
  box.ask(urgent);
  box.obey();
  EXPECT_EQ(box.window(low), 32U);
  EXPECT_EQ(box.window(urgent), 32U);
}

// The second of two equal pools comes back first, below which nothing is free yet: it moves later.
TEST(MembersPreemption, PoolsMoveTogether) {
  Rack box(128);
  auto& a = box.add("a", 10, 64);
  auto& b = box.add("b", 10, 64);
  auto& urgent = box.add("urgent", 30, 64);
  ASSERT_TRUE(box.form(a.peers));
  ASSERT_TRUE(box.form(b.peers));
  box.ask(urgent);
  box.obey();
  EXPECT_EQ(box.window(a), 32U);
  EXPECT_EQ(box.window(b), 32U);
  EXPECT_EQ(box.window(urgent), 64U);
}

TEST(MembersPreemption, ALedgerTakesMemoryToo) {
  const std::uint32_t own = 64 * kEntry;
  Bench bench(shared_box(own, 64));
  members::NativeConfig pool = config_of(1, "low");
  pool.window = 64;
  pool.priority = 10;
  const JobId low = bench.declare(pool);
  members::NativeConfig sharer = sharer_of(1, Discipline::kShared, "urgent");
  sharer.window = 64;
  const JobId urgent = bench.declare(sharer);
  Peer a(0, 1);
  a.job = "low";
  Peer b(0, 1);
  b.job = "urgent";
  b.binding.udp_port = 50'000;
  ASSERT_TRUE(bench.form({&a}));
  const auto sent = bench.send(b, b.join());
  EXPECT_EQ(only(sent, PacketType::kJoined, b).status(), JoinStatus::kForming);
  EXPECT_EQ(count_of(sent, PacketType::kReject, a), 1U);
  Bench::take(b, bench.send(a, a.join()));
  EXPECT_EQ(bench.status(low).window, 32U);
  EXPECT_EQ(bench.status(urgent).phase, members::JobPhase::kRunning);
  EXPECT_EQ(bench.status(urgent).window, 64U);
}

// A whole shrunk state: low has 32 of 64, urgent 32.
struct MembersShrunk : testing::Test, Rack {
  MembersShrunk() : Rack(64) {
    EXPECT_TRUE(form(low.peers));
    ask(urgent);
  }
  void live(TimeNs time) {
    for (const TimeNs end = now + time; now < end;) {
      note(advance(kSecond));
      if (status(low.id).phase == members::JobPhase::kRunning) beat(low);
      if (status(urgent.id).phase == members::JobPhase::kRunning) beat(urgent);
    }
  }
  Team& low = add("low", 10, 64);
  Team& urgent = add("urgent", 30, 32, 5 * kSecond);
};

TEST_F(MembersShrunk, GrowsBackWhenTheOtherHasEnded) {
  obey();
  ASSERT_EQ(window(low), 32U);
  ASSERT_EQ(window(urgent), 32U);
  const GenerationRecord record = low.peers[0].last;
  live(60 * kSecond);
  EXPECT_FALSE(called_back(low)) << "there is nothing to grow into";
  for (Peer& p : urgent.peers) note(send(p, p.leave()));
  EXPECT_EQ(status(urgent.id).phase, members::JobPhase::kEnded);
  live(kSecond);
  EXPECT_TRUE(called_back(low));
  EXPECT_EQ(status(low.id).limit, 64U);
  obey();
  EXPECT_EQ(window(low), 64U);
  EXPECT_EQ(low.peers[0].last, record);
  EXPECT_EQ(status(low.id).limit, 0U);
  EXPECT_EQ(status(low.id).shrunk_for, "");
  live(60 * kSecond);
  EXPECT_FALSE(called_back(low));
}

TEST_F(MembersShrunk, DoesNotGrowSoonerThanTenSecondsAfterItsLastEpoch) {
  obey();
  for (Peer& p : urgent.peers) note(send(p, p.leave()));
  live(9 * kSecond);
  EXPECT_FALSE(called_back(low));
  live(2 * kSecond);
  EXPECT_TRUE(called_back(low));
}

TEST_F(MembersShrunk, DeadMemberOfTheShrunkJobHoldsTheOtherUpForALease) {
  low.dead = true;
  const TimeNs began = now;
  while (window(urgent) == 0 && now < began + 100 * kSecond) {
    ask(low);
    ask(urgent);
    note(advance(kSecond));
  }
  EXPECT_FALSE(refused(urgent));
  EXPECT_EQ(now - began, 30 * kSecond);
  EXPECT_EQ(window(urgent), 32U);
  EXPECT_EQ(status(low.id).phase, members::JobPhase::kAborted);
  EXPECT_THAT(status(low.id).reason, HasSubstr("rank 1 at 10.0.0.1 was silent"));
}

TEST_F(MembersShrunk, WithdrawnBeforeThePoolIsBack) {
  ASSERT_TRUE(members->withdraw("urgent"));
  obey();
  EXPECT_EQ(window(low), 32U) << "it was called back to that";
  note(advance(9 * kSecond));
  beat(low);
  EXPECT_FALSE(called_back(low));
  note(advance(2 * kSecond));
  obey();
  EXPECT_EQ(window(low), 64U);
}

TEST_F(MembersShrunk, SilentBeforeThePoolIsBack) {
  note(advance(6 * kSecond));
  EXPECT_EQ(status(urgent.id).phase, members::JobPhase::kDeclared);
  EXPECT_EQ(status(low.id).phase, members::JobPhase::kForming);
  obey();
  EXPECT_EQ(window(low), 32U);
  live(11 * kSecond);
  obey();
  EXPECT_EQ(window(low), 64U);
}

// Its ranks are all there: the patience with those who do not come back does not end.
TEST(MembersPreemption, AGenerationThatComesBackAfterALossOfStateWaitsToo) {
  Rack box(64);
  auto& low = box.add("low", 10, 64);
  auto& urgent = box.add("urgent", 30, 32, 5 * kSecond);
  ASSERT_TRUE(box.form(urgent.peers));
  const GenerationRecord record = urgent.peers[0].last;
  box.forget_everything();
  ASSERT_TRUE(box.form(low.peers));
  for (int second = 0; second < 8; ++second) {
    box.ask(urgent);
    box.note(box.advance(kSecond));
  }
  EXPECT_FALSE(box.refused(urgent));
  EXPECT_EQ(box.status(urgent.id).phase, members::JobPhase::kForming);
  box.obey();
  EXPECT_EQ(box.window(low), 32U);
  EXPECT_EQ(box.window(urgent), 32U);
  EXPECT_EQ(urgent.peers[0].last, record);
}

// All of the memory is theirs again, in one piece for each.
TEST(MembersPreemption, AllPoolsGrowBack) {
  Rack box(64 + 128 + 64);
  auto& a = box.add("a", 10, 64);
  auto& b = box.add("b", 20, 128);
  auto& c = box.add("c", 15, 64);
  auto& urgent = box.add("urgent", 30, 128, 5 * kSecond);
  for (auto* team : {&a, &b, &c}) ASSERT_TRUE(box.form(team->peers));
  box.ask(urgent);
  box.obey();
  ASSERT_EQ(box.window(urgent), 128U);
  for (Peer& p : urgent.peers) box.note(box.send(p, p.leave()));
  for (int second = 0; second < 60; ++second) {
    for (auto* team : {&a, &b, &c}) box.beat(*team);
    box.note(box.advance(kSecond));
    box.obey();
  }
  EXPECT_EQ(box.window(a), 64U);
  EXPECT_EQ(box.window(b), 128U);
  EXPECT_EQ(box.window(c), 64U);
}

// Free lines that urgent waits for are not for those who come later with less right.
TEST_F(MembersShrunk, LowerNewcomersWaitBehind) {
  Team& late = add("late", 20, 16);
  ask(late);
  EXPECT_FALSE(refused(late));
  EXPECT_EQ(status(late.id).phase, members::JobPhase::kForming);
  obey();
  EXPECT_EQ(window(urgent), 32U);
  ask(late);  // as its workers do while they wait
  obey();
  EXPECT_EQ(window(late), 16U);
  EXPECT_EQ(window(low), 16U);
}

// A hint that was lost is repeated when the waiting workers ask again.
TEST_F(MembersShrunk, HintsAreRepeated) {
  sent.clear();
  ask(urgent);
  EXPECT_TRUE(called_back(low));
  EXPECT_FALSE(refused(urgent));
}

TEST_F(MembersShrunk, RestartOfTheDataPlaneMeanwhile) {
  members->restart_data_plane(now);
  note(settle());
  obey();
  ask(urgent);
  obey();
  EXPECT_EQ(window(low), 32U);
  EXPECT_EQ(window(urgent), 32U);
}

}  // namespace
}  // namespace tally::members_test
