// The table of phases: every change that it has happens, and any other ends the process.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "members/life_phase.h"
#include "members_running_support.h"

namespace tally::members_test {
namespace {

using members::JobPhase;
using members::LifePhase;

constexpr std::array kPhases{JobPhase::kDeclared, JobPhase::kForming, JobPhase::kRunning,
                             JobPhase::kDraining, JobPhase::kEnded,   JobPhase::kAborted};

// By the table alone, on the way `passed`; empty if there is none.
std::vector<JobPhase> way_to(JobPhase goal, std::vector<JobPhase> passed = {JobPhase::kDeclared}) {
  if (passed.back() == goal) return passed;
  for (const JobPhase next : kPhases) {
    if (!LifePhase::allowed(passed.back(), next)) continue;
    if (std::find(passed.begin(), passed.end(), next) != passed.end()) continue;
    auto longer = passed;
    longer.push_back(next);
    if (auto way = way_to(goal, std::move(longer)); !way.empty()) return way;
  }
  return {};
}

LifePhase brought_to(JobPhase goal) {
  LifePhase phase;
  for (const JobPhase next : way_to(goal)) phase.transition(next);
  return phase;
}

TEST(MembersLife, EveryChangeOfTheTableHappensAndNoOther) {
  // From above to the right: declared, forming, running, draining, ended, aborted.
  constexpr std::array<std::string_view, kPhases.size()> kAllowed{
      "= x . . . x", "x = x . x x", ". x = x . x", ". . . = x x", ". x . . = x", ". x . . . ="};
  for (std::size_t from = 0; from < kPhases.size(); ++from) {
    for (std::size_t to = 0; to < kPhases.size(); ++to) {
      SCOPED_TRACE(std::string(members::name_of(kPhases[from])) + " -> " +
                   std::string(members::name_of(kPhases[to])));
      LifePhase phase = brought_to(kPhases[from]);
      ASSERT_EQ(phase, kPhases[from]);
      if (kAllowed[from][2 * to] == '.') {
        EXPECT_DEATH(phase.transition(kPhases[to]), "broken invariant: a change of phase");
      } else {
        phase.transition(kPhases[to]);
        EXPECT_EQ(phase, kPhases[to]);
      }
    }
  }
}

TEST_F(MembersRunning, AnOperatorEndsWhatTheJobDoesAndItMayComeBack) {
  ASSERT_TRUE(members->abort("resnet", "wrong\x1b[31m data", now));
  settle();
  EXPECT_EQ(status(id).phase, JobPhase::kAborted);
  EXPECT_EQ(status(id).reason, "ended by an operator: wrong [31m data");
  EXPECT_FALSE(members->abort("resnet", "again", now)) << "nobody is in it";
  EXPECT_FALSE(members->abort("resnte", "again", now));
  // Who waits for others is refused.
  for (auto& p : peers) p.restart();
  send(peers[0], peers[0].join());
  EXPECT_EQ(status(id).phase, JobPhase::kForming);
  ASSERT_TRUE(members->abort("resnet", "again", now));
  settle();
  EXPECT_EQ(status(id).phase, JobPhase::kDeclared);
  EXPECT_EQ(status(id).live, 0U);
  for (auto& p : peers) p.restart();
  EXPECT_TRUE(form(peers));
}

TEST_F(MembersRunning, JobGoesThroughEveryChangeOfTheTable) {
  std::vector<members::PhaseChange> left(members::kPhaseChanges.begin(), members::kPhaseChanges.end());
  JobPhase before = JobPhase::kRunning;
  const auto now_in = [&](JobPhase expected) {
    const JobPhase after = status(id).phase;
    EXPECT_EQ(after, expected) << members::name_of(after);
    std::erase(left, members::PhaseChange{before, after});
    before = after;
  };
  const auto runs_again = [&] {
    for (auto& p : peers) p.restart();
    send(peers[0], peers[0].join());
    now_in(JobPhase::kForming);
    EXPECT_TRUE(form(peers));
    now_in(JobPhase::kRunning);
    for (const auto& p : peers) send(p, p.heartbeat());
  };
  const auto called_back = [&] {
    members->restart_data_plane(now);
    settle();
    now_in(JobPhase::kForming);
  };

  send(peers[0], peers[0].leave());
  now_in(JobPhase::kDraining);
  for (const auto& p : peers) send(p, p.leave());
  now_in(JobPhase::kEnded);

  runs_again();
  send(peers[1], peers[1].abort("enough"));
  now_in(JobPhase::kAborted);

  for (auto& p : peers) p.restart();
  send(peers[0], peers[0].join());
  now_in(JobPhase::kForming);
  advance(11 * kSecond);
  now_in(JobPhase::kDeclared);

  runs_again();
  send(peers[0], peers[0].leave());
  now_in(JobPhase::kDraining);
  send(peers[1], peers[1].abort("enough"));
  now_in(JobPhase::kAborted);

  runs_again();
  called_back();
  send(peers[0], peers[0].leave());
  now_in(JobPhase::kEnded);

  runs_again();
  called_back();
  send(peers[1], peers[1].abort("enough"));
  now_in(JobPhase::kAborted);

  // The rest is withdrawal, after which there is no status.
  EXPECT_EQ(left, (std::vector<members::PhaseChange>{{JobPhase::kDeclared, JobPhase::kAborted},
                                                     {JobPhase::kEnded, JobPhase::kAborted}}));
  runs_again();
  for (const auto& p : peers) send(p, p.leave());
  EXPECT_EQ(status(id).phase, JobPhase::kEnded);
  EXPECT_TRUE(members->withdraw("resnet"));
  id = declare(config_of(3));
  EXPECT_EQ(status(id).phase, JobPhase::kDeclared);
  EXPECT_TRUE(members->withdraw("resnet"));
}

}  // namespace
}  // namespace tally::members_test
