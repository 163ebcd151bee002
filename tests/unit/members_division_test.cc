// Weighted max-min division of the shared slots, also against a slow one that is written from its definition.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "members/rebalance.h"
#include "tally/mix64.h"

namespace tally::members_test {
namespace {

constexpr std::uint32_t kAll = members::Sharer::kEverything;
using Caps = std::vector<std::uint32_t>;

Caps caps_of(const std::vector<members::Sharer>& sharers, std::uint32_t entries) {
  return members::divide(sharers, entries);
}

TEST(MembersDivision, NobodyGetsNothing) { EXPECT_TRUE(caps_of({}, 1024).empty()); }

TEST(MembersDivision, WhoIsAloneHasTheRegionUpToItsLimit) {
  EXPECT_EQ(caps_of({{1, 0, 1024, 0}}, 1024), Caps{1024});
  EXPECT_EQ(caps_of({{1, 0, 1024, kAll}}, 1024), Caps{1024});
  EXPECT_EQ(caps_of({{1, 0, 300, kAll}}, 1024), Caps{300});
}

TEST(MembersDivision, WhoWantEverythingShareByWeight) {
  EXPECT_EQ(caps_of({{1, 0, 1024, kAll}, {1, 0, 1024, kAll}}, 1024), (Caps{512, 512}));
  EXPECT_EQ(caps_of({{3, 0, 1024, kAll}, {1, 0, 1024, kAll}}, 1024), (Caps{768, 256}));
  EXPECT_EQ(caps_of({{1, 0, 1024, kAll}, {1, 0, 1024, kAll}, {1, 0, 1024, kAll}}, 1024),
            (Caps{342, 342, 342}));
}

TEST(MembersDivision, WhatOneLeavesTheOtherMayTake) {
  const Caps caps = caps_of({{1, 0, 1024, kAll}, {1, 0, 1024, 5}}, 1024);
  EXPECT_EQ(caps[0], 1019U);
  EXPECT_EQ(caps[1], 512U);  // if it came to want them
  EXPECT_EQ(caps_of({{1, 0, 1024, kAll}, {1, 0, 100, kAll}}, 1024), (Caps{924, 100}));
}

TEST(MembersDivision, AReservationIsKeptAndLentWhileItIdles) {
  EXPECT_EQ(caps_of({{1, 800, 1024, kAll}, {1'000, 0, 1024, kAll}}, 1024), (Caps{800, 224}));
  EXPECT_EQ(caps_of({{1, 800, 1024, 10}, {1'000, 0, 1024, kAll}}, 1024), (Caps{800, 1014}));
  EXPECT_EQ(caps_of({{1, 1024, 1024, kAll}, {1, 0, 1024, kAll}}, 1024), (Caps{1024, 1}));
}

TEST(MembersDivision, WhoHoldsMoreThanItsShareDoesNotKeepIt) {
  EXPECT_EQ(caps_of({{1, 0, 1024, 1'000}, {1, 0, 1024, kAll}}, 1024), (Caps{512, 512}));
}

TEST(MembersDivision, EverybodyMayHoldOne) {
  const Caps caps = caps_of(std::vector<members::Sharer>(10, members::Sharer{1, 0, 3, kAll}), 3);
  EXPECT_EQ(caps, Caps(10, 1U));
}

// One at a time: sort the levels where somebody's share bends, and solve on the straight piece between two.
double slow_share(std::vector<members::Sharer> sharers, std::size_t greedy, std::uint32_t entries) {
  sharers[greedy].demand = kAll;
  const auto share = [](const members::Sharer& s, double level) {
    const double most = std::min(s.demand, s.limit);
    return std::clamp(s.weight * level, std::min<double>(s.reserved, most), most);
  };
  const auto sum = [&](double level) {
    double all = 0;
    for (const members::Sharer& s : sharers) all += share(s, level);
    return all;
  };
  std::vector<double> levels{0};
  for (const members::Sharer& s : sharers) {
    for (const std::uint32_t bend : {s.reserved, std::min(s.demand, s.limit)})
      levels.push_back(static_cast<double>(bend) / s.weight);
  }
  std::sort(levels.begin(), levels.end());
  for (std::size_t k = 1; k < levels.size(); ++k) {
    if (sum(levels[k]) < entries) continue;
    const double below = sum(levels[k - 1]);
    const double above = sum(levels[k]);
    if (below >= entries || above <= below) return share(sharers[greedy], levels[k - 1]);
    const double part = (entries - below) / (above - below);
    return share(sharers[greedy], levels[k - 1] + part * (levels[k] - levels[k - 1]));
  }
  return share(sharers[greedy], levels.back());
}

TEST(MembersDivision, AgreesWithItsDefinition) {
  std::uint64_t state = 5;
  const auto below = [&](std::uint64_t n) {
    return static_cast<std::uint32_t>(mix64(state += 0x9e3779b97f4a7c15ULL) % n);
  };
  for (int round = 0; round < 2'000; ++round) {
    const std::uint32_t entries = 1 + below(5'000);
    std::vector<members::Sharer> sharers(1 + below(12));
    std::uint32_t free = entries;
    for (members::Sharer& s : sharers) {
      s.weight = 1 + below(below(4) == 0 ? 1'000 : 4);
      s.reserved = below(3) == 0 ? below(free + 1) : 0;
      free -= s.reserved;
      s.limit = std::max(s.reserved + below(entries - s.reserved + 1), 1U);
      s.demand = below(2) == 0 ? kAll : below(entries + 1);
    }
    const Caps caps = members::divide(sharers, entries);
    ASSERT_EQ(caps.size(), sharers.size());
    for (std::size_t i = 0; i < sharers.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "round " << round << " sharer " << i);
      const double exact = slow_share(sharers, i, entries);
      ASSERT_GE(caps[i] + 1e-3, exact);
      ASSERT_LT(caps[i], std::max(exact, 0.5) + 1);
      ASSERT_GE(caps[i], std::max(sharers[i].reserved, 1U));
      ASSERT_LE(caps[i], sharers[i].limit);
    }
  }
}

TEST(MembersDivision, NothingLiesIdleWhileSomebodyWantsIt) {
  std::uint64_t state = 9;
  for (int round = 0; round < 500; ++round) {
    std::vector<members::Sharer> sharers(2 + static_cast<std::size_t>(round) % 9);
    for (members::Sharer& s : sharers) {
      const std::uint64_t r = mix64(state += 0x9e3779b97f4a7c15ULL);
      s = {.weight = static_cast<std::uint32_t>(1 + r % 9),
           .limit = 1'000,
           .demand = r % 3 == 0 ? kAll : static_cast<std::uint32_t>((r >> 8) % 200)};
    }
    sharers[0].demand = kAll;
    const Caps caps = members::divide(sharers, 1'000);
    std::uint64_t usable = 0;
    for (std::size_t i = 0; i < sharers.size(); ++i) usable += std::min(sharers[i].demand, caps[i]);
    ASSERT_GE(usable, 1'000U) << round;
  }
}

}  // namespace
}  // namespace tally::members_test
