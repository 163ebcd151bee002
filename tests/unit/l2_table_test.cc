// The table of hosts.

#include <gtest/gtest.h>

#include "l2/mac_table.h"
#include "rng.h"
#include "tally/mix64.h"

namespace tally {
namespace {

using Learned = l2::MacTable::Learned;
constexpr PortIndex kFirst{1}, kSecond{2};

Mac host(std::uint32_t n) {
  return {2,
          1,
          static_cast<std::uint8_t>(n >> 24),
          static_cast<std::uint8_t>(n >> 16),
          static_cast<std::uint8_t>(n >> 8),
          static_cast<std::uint8_t>(n)};
}

Learned learn(l2::MacTable& table, const Mac& mac, PortIndex port, l2::Seconds now) {
  table.age(now);
  return table.learn(mac, port, now);
}
std::optional<PortIndex> find(l2::MacTable& table, const Mac& mac, l2::Seconds now) {
  table.age(now);
  return table.find(mac, now);
}

// Hosts of one bucket.
std::vector<Mac> crowd(std::size_t size) {
  const auto bucket = [](const Mac& mac) {
    std::uint64_t number = 0;
    std::memcpy(&number, mac.data(), mac.size());
    return mix64(number) % l2::MacTable::kBuckets;
  };
  std::vector<Mac> hosts;
  for (std::uint32_t n = 0; hosts.size() < size; ++n)
    if (bucket(host(n)) == bucket(host(0))) hosts.push_back(host(n));
  return hosts;
}

TEST(MacTable, AHostIsFoundWhereItWasSeen) {
  l2::MacTable table;
  EXPECT_EQ(find(table, host(1), 5), std::nullopt);
  EXPECT_EQ(learn(table, host(1), PortIndex{63}, 5), Learned::kNew);
  EXPECT_EQ(learn(table, host(2), PortIndex{0}, 5), Learned::kNew);
  EXPECT_EQ(find(table, host(1), 5), PortIndex{63});
  EXPECT_EQ(find(table, host(2), 6), PortIndex{0});
  EXPECT_EQ(find(table, host(3), 6), std::nullopt);
  EXPECT_EQ(learn(table, host(1), PortIndex{63}, 7), Learned::kKnown);
  EXPECT_EQ(table.size(7), 2U);
}

TEST(MacTable, AHostThatMovedIsFoundAtItsNewPortOnly) {
  l2::MacTable table;
  learn(table, host(1), kFirst, 5);
  EXPECT_EQ(learn(table, host(1), kSecond, 5), Learned::kMoved);
  EXPECT_EQ(find(table, host(1), 5), kSecond);
  EXPECT_EQ(learn(table, host(1), kFirst, 6), Learned::kMoved);
  EXPECT_EQ(find(table, host(1), 6), kFirst);
  EXPECT_EQ(table.size(6), 1U);
}

TEST(MacTable, ASilentHostIsForgottenAfterFiveMinutes) {
  l2::MacTable table;
  learn(table, host(1), kFirst, 1'000);
  EXPECT_EQ(find(table, host(1), 1'300), kFirst);
  EXPECT_EQ(table.size(1'300), 1U);
  EXPECT_EQ(find(table, host(1), 1'301), std::nullopt);
  EXPECT_EQ(table.size(1'301), 0U);
  EXPECT_EQ(learn(table, host(1), kSecond, 1'301), Learned::kNew);
}

TEST(MacTable, AHostThatIsHeardStays) {
  l2::MacTable table;
  learn(table, host(1), kFirst, 0);
  for (l2::Seconds now = 200; now < 20'000; now += 200) {
    EXPECT_EQ(find(table, host(1), now), kFirst);
    EXPECT_EQ(learn(table, host(1), kFirst, now), Learned::kKnown);
  }
}

// A word holds the last 10 bits of the second.
TEST(MacTable, NobodyComesBackWhenTheSecondsWrapAround) {
  for (const l2::Seconds start : {0U, 1U, 700U, 1'023U, 1'024U, 5'000U}) {
    for (const l2::Seconds pause :
         {301U, 600U, 601U, 767U, 768U, 1'000U, 1'023U, 1'024U, 1'025U, 1'324U, 2'048U}) {
      l2::MacTable table;
      learn(table, host(1), kFirst, start);
      EXPECT_EQ(table.size(start + pause), 0U) << start << ' ' << pause;
      EXPECT_EQ(find(table, host(1), start + pause), std::nullopt) << start << ' ' << pause;
    }
  }
}

TEST(MacTable, NobodyComesBackWhenOthersAreHeardMeanwhile) {
  for (const l2::Seconds step : {1U, 7U, 299U, 300U, 301U, 500U}) {
    l2::MacTable table;
    learn(table, host(1), kFirst, 0);
    for (l2::Seconds now = step; now < 3'000; now += step) {
      learn(table, host(2), kSecond, now);
      EXPECT_EQ(find(table, host(1), now).has_value(), now <= l2::MacTable::kAgeing) << step << ' ' << now;
      EXPECT_EQ(find(table, host(2), now), kSecond);
    }
  }
}

// Data cores read their own clocks.
TEST(MacTable, AClockThatIsBehindForgetsNobody) {
  l2::MacTable table;
  learn(table, host(1), kFirst, 1'025);
  EXPECT_EQ(find(table, host(1), 1'022), kFirst);
  EXPECT_EQ(learn(table, host(1), kFirst, 1'023), Learned::kKnown);
  EXPECT_EQ(table.size(1'020), 1U);
}

// Another core may store a later second while this one is on its way to forget the silent ones.
TEST(MacTable, ASecondThatAnotherCoreIsAheadIsNoPause) {
  static_assert(!l2::MacTable::nobody_is_young(1'000, 1'001));
  static_assert(!l2::MacTable::nobody_is_young(1'000, 1'005));
  static_assert(!l2::MacTable::nobody_is_young(1'000, 1'000));
  static_assert(!l2::MacTable::nobody_is_young(1'300, 1'000));
  static_assert(l2::MacTable::nobody_is_young(1'301, 1'000));
  l2::MacTable table;
  learn(table, host(1), kFirst, 1'001);
  learn(table, host(2), kSecond, 1'000);
  EXPECT_EQ(find(table, host(1), 1'000), kFirst);
  EXPECT_EQ(table.size(1'000), 2U);
}

TEST(MacTable, AFullBucketForgetsTheOneThatWasSilentLongest) {
  l2::MacTable table;
  const auto hosts = crowd(l2::MacTable::kWays + 2);
  for (std::size_t i = 0; i < l2::MacTable::kWays; ++i)
    EXPECT_EQ(learn(table, hosts[i], kFirst, 100 + i), Learned::kNew);
  EXPECT_EQ(learn(table, hosts[0], kFirst, 120), Learned::kKnown);
  EXPECT_EQ(learn(table, hosts[8], kSecond, 121), Learned::kReplaced);
  EXPECT_EQ(find(table, hosts[1], 121), std::nullopt) << "the oldest";
  EXPECT_EQ(find(table, hosts[0], 121), kFirst);
  EXPECT_EQ(find(table, hosts[8], 121), kSecond);
  EXPECT_EQ(learn(table, hosts[9], kSecond, 121), Learned::kReplaced);
  EXPECT_EQ(find(table, hosts[2], 121), std::nullopt);
  EXPECT_EQ(table.size(121), l2::MacTable::kWays);
}

TEST(MacTable, AFullBucketHasRoomForWhoMoves) {
  l2::MacTable table;
  const auto hosts = crowd(l2::MacTable::kWays);
  for (const Mac& mac : hosts) learn(table, mac, kFirst, 100);
  EXPECT_EQ(learn(table, hosts[5], kSecond, 101), Learned::kMoved);
  EXPECT_EQ(table.size(101), l2::MacTable::kWays);
  EXPECT_EQ(find(table, hosts[5], 101), kSecond);
}

TEST(MacTable, ThousandsOfHostsFit) {
  l2::MacTable table;
  for (std::uint32_t n = 0; n < 2'000; ++n)
    learn(table, host(n), PortIndex{static_cast<std::uint16_t>(n % 8)}, 9);
  std::size_t found = 0;
  for (std::uint32_t n = 0; n < 2'000; ++n) {
    const auto port = find(table, host(n), 10);
    if (!port) continue;
    ++found;
    EXPECT_EQ(raw(*port), n % 8);
  }
  EXPECT_GT(found, 1'990U);
  EXPECT_EQ(table.size(10), found);
  for (std::uint32_t n = 0; n < 100'000; ++n) learn(table, host(n), kFirst, 11);
  EXPECT_EQ(table.size(11), l2::MacTable::kBuckets * l2::MacTable::kWays);
}

}  // namespace
}  // namespace tally
