// The table of hosts.

#include <gtest/gtest.h>

#include "mac_table.h"
#include "rng.h"
#include "tally/mix64.h"

namespace tally {
namespace {

using Learned = MacTable::Learned;
constexpr PortIndex kOne{1}, kTwo{2};

Mac host(std::uint32_t n) {
  return {2,
          1,
          static_cast<std::uint8_t>(n >> 24),
          static_cast<std::uint8_t>(n >> 16),
          static_cast<std::uint8_t>(n >> 8),
          static_cast<std::uint8_t>(n)};
}

Learned learn(MacTable& table, const Mac& mac, PortIndex port, Seconds now) {
  table.age(now);
  return table.learn(mac, port, now);
}
std::optional<PortIndex> find(MacTable& table, const Mac& mac, Seconds now) {
  table.age(now);
  return table.find(mac, now);
}

// Hosts of one bucket.
std::vector<Mac> crowd(std::size_t size) {
  const auto bucket = [](const Mac& mac) {
    std::uint64_t number = 0;
    std::memcpy(&number, mac.data(), mac.size());
    return mix64(number) % MacTable::kBuckets;
  };
  std::vector<Mac> hosts;
  for (std::uint32_t n = 0; hosts.size() < size; ++n)
    if (bucket(host(n)) == bucket(host(0))) hosts.push_back(host(n));
  return hosts;
}

TEST(MacTable, AHostIsFoundWhereItWasSeen) {
  MacTable table;
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
  MacTable table;
  learn(table, host(1), kOne, 5);
  EXPECT_EQ(learn(table, host(1), kTwo, 5), Learned::kMoved);
  EXPECT_EQ(find(table, host(1), 5), kTwo);
  EXPECT_EQ(learn(table, host(1), kOne, 6), Learned::kMoved);
  EXPECT_EQ(find(table, host(1), 6), kOne);
  EXPECT_EQ(table.size(6), 1U);
}

TEST(MacTable, ASilentHostIsForgottenAfterFiveMinutes) {
  MacTable table;
  learn(table, host(1), kOne, 1'000);
  EXPECT_EQ(find(table, host(1), 1'300), kOne);
  EXPECT_EQ(table.size(1'300), 1U);
  EXPECT_EQ(find(table, host(1), 1'301), std::nullopt);
  EXPECT_EQ(table.size(1'301), 0U);
  EXPECT_EQ(learn(table, host(1), kTwo, 1'301), Learned::kNew);
}

TEST(MacTable, AHostThatIsHeardStays) {
  MacTable table;
  learn(table, host(1), kOne, 0);
  for (Seconds now = 200; now < 20'000; now += 200) {
    EXPECT_EQ(find(table, host(1), now), kOne);
    EXPECT_EQ(learn(table, host(1), kOne, now), Learned::kKnown);
  }
}

// A word holds the last 10 bits of the second.
TEST(MacTable, NobodyComesBackWhenTheSecondsWrapAround) {
  for (const Seconds start : {0U, 1U, 700U, 1'023U, 1'024U, 5'000U}) {
    for (const Seconds pause :
         {301U, 600U, 601U, 767U, 768U, 1'000U, 1'023U, 1'024U, 1'025U, 1'324U, 2'048U}) {
      MacTable table;
      learn(table, host(1), kOne, start);
      EXPECT_EQ(table.size(start + pause), 0U) << start << ' ' << pause;
      EXPECT_EQ(find(table, host(1), start + pause), std::nullopt) << start << ' ' << pause;
    }
  }
}

TEST(MacTable, NobodyComesBackWhenOthersAreHeardMeanwhile) {
  for (const Seconds step : {1U, 7U, 299U, 300U, 301U, 500U}) {
    MacTable table;
    learn(table, host(1), kOne, 0);
    for (Seconds now = step; now < 3'000; now += step) {
      learn(table, host(2), kTwo, now);
      EXPECT_EQ(find(table, host(1), now).has_value(), now <= MacTable::kAgeing) << step << ' ' << now;
      EXPECT_EQ(find(table, host(2), now), kTwo);
    }
  }
}

// Data cores read their own clocks.
TEST(MacTable, AClockThatIsBehindForgetsNobody) {
  MacTable table;
  learn(table, host(1), kOne, 1'025);
  EXPECT_EQ(find(table, host(1), 1'022), kOne);
  EXPECT_EQ(learn(table, host(1), kOne, 1'023), Learned::kKnown);
  EXPECT_EQ(table.size(1'020), 1U);
}

// Another core may store a later second while this one is on its way to forget the silent ones.
TEST(MacTable, ASecondThatAnotherCoreIsAheadIsNoPause) {
  static_assert(!MacTable::nobody_is_young(1'000, 1'001));
  static_assert(!MacTable::nobody_is_young(1'000, 1'005));
  static_assert(!MacTable::nobody_is_young(1'000, 1'000));
  static_assert(!MacTable::nobody_is_young(1'300, 1'000));
  static_assert(MacTable::nobody_is_young(1'301, 1'000));
  MacTable table;
  learn(table, host(1), kOne, 1'001);
  learn(table, host(2), kTwo, 1'000);
  EXPECT_EQ(find(table, host(1), 1'000), kOne);
  EXPECT_EQ(table.size(1'000), 2U);
}

TEST(MacTable, AFullBucketForgetsTheOneThatWasSilentLongest) {
  MacTable table;
  const auto hosts = crowd(MacTable::kWays + 2);
  for (std::size_t i = 0; i < MacTable::kWays; ++i)
    EXPECT_EQ(learn(table, hosts[i], kOne, 100 + i), Learned::kNew);
  EXPECT_EQ(learn(table, hosts[0], kOne, 120), Learned::kKnown);
  EXPECT_EQ(learn(table, hosts[8], kTwo, 121), Learned::kReplaced);
  EXPECT_EQ(find(table, hosts[1], 121), std::nullopt) << "the oldest";
  EXPECT_EQ(find(table, hosts[0], 121), kOne);
  EXPECT_EQ(find(table, hosts[8], 121), kTwo);
  EXPECT_EQ(learn(table, hosts[9], kTwo, 121), Learned::kReplaced);
  EXPECT_EQ(find(table, hosts[2], 121), std::nullopt);
  EXPECT_EQ(table.size(121), MacTable::kWays);
}

TEST(MacTable, AFullBucketHasRoomForWhoMoves) {
  MacTable table;
  const auto hosts = crowd(MacTable::kWays);
  for (const Mac& mac : hosts) learn(table, mac, kOne, 100);
  EXPECT_EQ(learn(table, hosts[5], kTwo, 101), Learned::kMoved);
  EXPECT_EQ(table.size(101), MacTable::kWays);
  EXPECT_EQ(find(table, hosts[5], 101), kTwo);
}

TEST(MacTable, ThousandsOfHostsFit) {
  MacTable table;
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
  for (std::uint32_t n = 0; n < 100'000; ++n) learn(table, host(n), kOne, 11);
  EXPECT_EQ(table.size(11), MacTable::kBuckets * MacTable::kWays);
}

}  // namespace
}  // namespace tally
