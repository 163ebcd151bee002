// Where frames go.

#include <gtest/gtest.h>

#include "l2/forwarding.h"

namespace tally {
namespace {

constexpr Mac kBox{2, 0, 0, 0, 0, 1}, kA{2, 0, 0, 0, 0, 0xa}, kB{2, 0, 0, 0, 0, 0xb};
constexpr PortIndex kOne{1}, kTwo{2}, kThree{3};

struct Scene {
  l2::MacTable hosts;
  l2::SwitchCounters counters;
  l2::Forwarding forwarding{hosts, counters};

  std::string route(PortIndex ingress, const Mac& to, const Mac& from, TimeNs now = kSecond) {
    const l2::Route r = forwarding.route(ingress, to, from, now);
    return r.fate == l2::SwitchFate::kForwarded ? "to " + std::to_string(raw(r.to))
                                                : std::string(l2::name_of(r.fate));
  }
};

TEST(Forwarding, WhoIsUnknownIsFloodedWhoIsKnownGetsItAlone) {
  Scene s;
  EXPECT_EQ(s.route(kOne, kB, kA), "flooded");
  EXPECT_EQ(s.route(kTwo, kA, kB), "to 1");
  EXPECT_EQ(s.route(kOne, kB, kA), "to 2");
  EXPECT_EQ(s.route(kThree, kB, Mac{2, 0, 0, 0, 0, 0xc}), "to 2");
  EXPECT_EQ(s.counters.learned.get(), 3U);
  EXPECT_EQ(s.counters.moved.get(), 0U);
  EXPECT_EQ(s.counters.frames(), 0U) << "the caller counts fates";
}

TEST(Forwarding, GroupsAreFlooded) {
  Scene s;
  EXPECT_EQ(s.route(kOne, kBroadcastMac, kA), "flooded");
  EXPECT_EQ(s.route(kOne, {0x33, 0x33, 0, 0, 0, 1}, kA), "flooded");
  EXPECT_EQ(s.route(kOne, {1, 0, 0x5e, 0, 0, 1}, kA), "flooded");
  EXPECT_EQ(s.hosts.size(1), 1U);
}

TEST(Forwarding, NeverBackToWhereItCameFrom) {
  Scene s;
  s.route(kOne, kBroadcastMac, kA);
  s.route(kOne, kBroadcastMac, kB);
  EXPECT_EQ(s.route(kOne, kB, kA), "filtered");
  EXPECT_EQ(s.route(kOne, kA, kA), "filtered");
}

TEST(Forwarding, AHostThatMovesIsFollowed) {
  Scene s;
  s.route(kOne, kBroadcastMac, kA);
  s.route(kTwo, kBroadcastMac, kB);
  EXPECT_EQ(s.route(kTwo, kA, kB), "to 1");
  EXPECT_EQ(s.route(kThree, kBroadcastMac, kA), "flooded");
  EXPECT_EQ(s.route(kTwo, kA, kB), "to 3");
  EXPECT_EQ(s.counters.moved.get(), 1U);
  // What it sends to its own old port is not sent back to it.
  EXPECT_EQ(s.route(kTwo, kA, kA), "filtered");
  EXPECT_EQ(s.counters.moved.get(), 2U);
}

TEST(Forwarding, WhoIsSilentIsFloodedAgain) {
  Scene s;
  s.route(kOne, kBroadcastMac, kA, 0);
  EXPECT_EQ(s.route(kTwo, kA, kB, 300 * kSecond), "to 1");
  EXPECT_EQ(s.route(kTwo, kA, kB, 301 * kSecond), "flooded");
  EXPECT_EQ(s.route(kTwo, kA, kB, 1'025 * kSecond), "flooded");
}

TEST(Forwarding, ReservedGroupsGoNowhereAndTeachNothing) {
  Scene s;
  for (std::uint8_t last = 0; last < 16; ++last)
    EXPECT_EQ(s.route(kOne, {0x01, 0x80, 0xC2, 0, 0, last}, kA), "reserved");
  EXPECT_EQ(s.hosts.size(1), 0U);
  EXPECT_EQ(s.route(kOne, {0x01, 0x80, 0xC2, 0, 0, 0x10}, kA), "flooded");
  EXPECT_EQ(s.route(kOne, {0x01, 0x80, 0xC2, 0, 1, 0}, kA), "flooded");
  EXPECT_EQ(s.route(kOne, {0x00, 0x80, 0xC2, 0, 0, 0}, kA), "flooded");
}

TEST(Forwarding, SomeSourcesAreWrong) {
  EXPECT_EQ(l2::wrong_source(kA, kBox), std::nullopt);
  EXPECT_EQ(l2::wrong_source(kBox, kBox), l2::SwitchFate::kOwnSource);
  EXPECT_EQ(l2::wrong_source({}, kBox), l2::SwitchFate::kSource);
  EXPECT_EQ(l2::wrong_source(kBroadcastMac, kBox), l2::SwitchFate::kSource);
  EXPECT_EQ(l2::wrong_source({1, 0, 0x5e, 0, 0, 1}, kBox), l2::SwitchFate::kSource);
}

TEST(Forwarding, ATableThatIsTooSmallSaysSo) {
  Scene s;
  constexpr std::uint32_t kHosts = 3 * l2::MacTable::kBuckets * l2::MacTable::kWays;
  for (std::uint32_t n = 0; n < kHosts; ++n)
    s.forwarding.learn({2, 1, 0, static_cast<std::uint8_t>(n >> 16), static_cast<std::uint8_t>(n >> 8),
                        static_cast<std::uint8_t>(n)},
                       kOne, kSecond);
  EXPECT_EQ(s.counters.learned.get(), kHosts);
  EXPECT_EQ(s.counters.evicted.get() + s.hosts.size(1), kHosts);
}

}  // namespace
}  // namespace tally
