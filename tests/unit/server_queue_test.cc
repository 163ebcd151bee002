// The queue towards external servers: classes, fairness, its bound, and who gives way.

#include "server/server_queue.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

namespace tally {
namespace {

using Queue = server::ServerQueue<int>;
constexpr std::uint8_t kPriority[] = {0, 64, 128, 192};  // lowest of each class
constexpr std::uint32_t kFrame = 1'500;

std::optional<int> push(Queue& q, int packet, std::uint16_t job, std::uint8_t priority,
                        std::uint32_t bytes = kFrame) {
  return q.push(packet, JobId{job}, priority, bytes);
}

// The next packets, which leave.
std::vector<int> take(Queue& q, std::size_t n) {
  std::vector<int> all;
  while (all.size() < n) {
    int packet = 0;
    if (q.next({&packet, 1}) == 0) break;
    q.sent(1);
    all.push_back(packet);
  }
  return all;
}

TEST(ServerQueue, IsEmptyAtFirst) {
  Queue q;
  int packet = 7;
  EXPECT_EQ(q.next({&packet, 1}), 0U);
  EXPECT_EQ(packet, 7);
  EXPECT_TRUE(q.empty());
}

TEST(ServerQueue, PacketsOfOneJobLeaveInOrderOfArrival) {
  Queue q;
  for (int i = 0; i < 100; ++i) EXPECT_EQ(push(q, i, 1, 100), std::nullopt);
  EXPECT_EQ(q.size(), 100U);
  const auto all = take(q, 1'000);
  ASSERT_EQ(all.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
}

// The top two bits of the priority are the class; below them nothing counts.
TEST(ServerQueue, AHigherClassLeavesFirstWheneverItCame) {
  Queue q;
  EXPECT_EQ(push(q, 1, 1, 63), std::nullopt);
  EXPECT_EQ(push(q, 2, 2, 191), std::nullopt);
  EXPECT_EQ(push(q, 3, 3, 64), std::nullopt);
  EXPECT_EQ(push(q, 4, 4, 254), std::nullopt);
  EXPECT_EQ(push(q, 5, 1, 0), std::nullopt);
  EXPECT_EQ(push(q, 6, 2, 128), std::nullopt);
  EXPECT_EQ(take(q, 3), (std::vector{4, 2, 6}));
  EXPECT_EQ(push(q, 7, 9, 200), std::nullopt);
  EXPECT_EQ(take(q, 9), (std::vector{7, 3, 1, 5}));
}

// One job may have packets of several classes: an urgent operation overtakes the job's others.
TEST(ServerQueue, TheClassIsThePacketsNotTheJobs) {
  Queue q;
  EXPECT_EQ(push(q, 1, 1, 0), std::nullopt);
  EXPECT_EQ(push(q, 2, 1, 254), std::nullopt);
  EXPECT_EQ(take(q, 2), (std::vector{2, 1}));
}

// Job 1 has 400 packets there when job 2's first one comes: job 2 does not wait for them.
TEST(ServerQueue, JobsOfAClassTakeTurnsWhateverTheirBacklog) {
  Queue q({.capacity = 512, .quantum = kFrame});
  for (int i = 0; i < 400; ++i) EXPECT_EQ(push(q, 1, 1, 100), std::nullopt);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(push(q, 2, 2, 100), std::nullopt);
  std::map<int, int> left;
  for (int i = 1; i <= 100; ++i) {
    const auto one = take(q, 1);
    ASSERT_EQ(one.size(), 1U);
    ++left[one[0]];
    EXPECT_LE(std::abs(left[1] - left[2]), 1) << "after " << i;
  }
  EXPECT_EQ(take(q, 1'000).size(), 350U);
}

// Fair is by bytes, as links are: ten small packets go for a large one.
TEST(ServerQueue, JobsOfAClassGetTheSameBytes) {
  Queue q({.capacity = 4'096, .quantum = 9'000});
  for (int i = 0; i < 3'000; ++i) EXPECT_EQ(push(q, 900, 1, 100, 900), std::nullopt);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(push(q, 9'000, 2, 100, 9'000), std::nullopt);
  std::map<int, std::int64_t> bytes;
  for (int i = 0; i < 2'000; ++i) {
    const auto one = take(q, 1);
    bytes[one.at(0)] += one.at(0);
    EXPECT_LE(std::abs(bytes[900] - bytes[9'000]), 9'000 + 9'000);
  }
  EXPECT_GT(bytes[9'000], 1'500'000);
}

// A packet larger than a turn's bytes takes several turns; it does not stop the queue.
TEST(ServerQueue, AQuantumThatIsTooSmallIsOnlySlower) {
  Queue q({.capacity = 8, .quantum = 100});
  EXPECT_EQ(push(q, 1, 1, 100, 9'000), std::nullopt);
  EXPECT_EQ(push(q, 2, 2, 100, 50), std::nullopt);
  EXPECT_EQ(push(q, 3, 2, 100, 50), std::nullopt);
  EXPECT_EQ(take(q, 3), (std::vector{2, 3, 1}));
}

TEST(ServerQueue, WhoWasSilentHasSavedUpNothing) {
  Queue q({.capacity = 64, .quantum = kFrame});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(push(q, 1, 1, 100, 100), std::nullopt);
    EXPECT_EQ(take(q, 1), std::vector{1});
  }
  for (int i = 0; i < 10; ++i) EXPECT_EQ(push(q, 2, 2, 100), std::nullopt);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(push(q, 1, 1, 100), std::nullopt);
  EXPECT_EQ(take(q, 4), (std::vector{2, 1, 2, 1}));
}

TEST(ServerQueue, AFullQueueRefusesTheNewcomer) {
  Queue q({.capacity = 4});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(push(q, i, 1, 100), std::nullopt);
  EXPECT_EQ(push(q, 4, 1, 100), 4);
  EXPECT_EQ(push(q, 5, 1, 0), 5) << "a lower class takes nothing";
  EXPECT_EQ(q.size(), 4U);
  EXPECT_EQ(take(q, 9), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(push(q, 6, 1, 100), std::nullopt) << "there is room again";
}

TEST(ServerQueue, AHigherClassTakesTheNewestPlaceOfTheLongestOfTheLowestClass) {
  Queue q({.capacity = 7});
  for (const int i : {10, 11}) EXPECT_EQ(push(q, i, 1, kPriority[0]), std::nullopt);
  for (const int i : {20, 21, 22}) EXPECT_EQ(push(q, i, 2, kPriority[0]), std::nullopt);
  EXPECT_EQ(push(q, 30, 3, kPriority[1]), std::nullopt);
  EXPECT_EQ(push(q, 31, 3, kPriority[1]), std::nullopt);
  EXPECT_EQ(push(q, 40, 4, kPriority[3]), 22);
  EXPECT_EQ(push(q, 41, 4, kPriority[3]), 11) << "of equally long ones, whose turn is first";
  EXPECT_EQ(push(q, 42, 4, kPriority[3]), 21);
  EXPECT_EQ(push(q, 32, 3, kPriority[1]), 10);
  EXPECT_EQ(push(q, 43, 4, kPriority[3]), 20);
  EXPECT_EQ(push(q, 44, 4, kPriority[3]), 32) << "class 0 is gone, class 1 is the lowest now";
  EXPECT_EQ(push(q, 50, 5, kPriority[2]), 31);
  EXPECT_EQ(take(q, 9), (std::vector{40, 41, 42, 43, 44, 50, 30}));
}

// Else whoever fills the queue first would have it for himself, however fairly it is emptied.
TEST(ServerQueue, AFullQueueMakesRoomForAJobThatHasLessOfTheSameClass) {
  Queue q({.capacity = 6});
  for (int i = 0; i < 6; ++i) EXPECT_EQ(push(q, i, 1, 100), std::nullopt);
  EXPECT_EQ(push(q, 10, 2, 100), 5);
  EXPECT_EQ(push(q, 11, 2, 100), 4);
  EXPECT_EQ(push(q, 12, 2, 100), 3) << "2 against 4: afterwards both have 3";
  EXPECT_EQ(push(q, 13, 2, 100), 13) << "more is not its part";
  EXPECT_EQ(push(q, 14, 1, 100), 14);
  EXPECT_EQ(q.size(), 6U);
}

// What a port did not take stays, and goes first of its class; a higher class still overtakes it.
TEST(ServerQueue, WhatWasNamedAndNotSentStaysInFront) {
  Queue q({.capacity = 64, .quantum = kFrame});
  for (const int i : {10, 11, 12}) EXPECT_EQ(push(q, i, 1, 100), std::nullopt);
  for (const int i : {20, 21, 22}) EXPECT_EQ(push(q, i, 2, 100), std::nullopt);
  std::vector<int> named(4);
  ASSERT_EQ(q.next(named), 4U);
  EXPECT_EQ(named, (std::vector{10, 20, 11, 21}));
  ASSERT_EQ(q.next(named), 4U);
  EXPECT_EQ(named, (std::vector{10, 20, 11, 21})) << "asking changes nothing";
  q.sent(1);
  EXPECT_EQ(q.size(), 5U);
  EXPECT_EQ(push(q, 30, 3, 100), std::nullopt);
  EXPECT_EQ(push(q, 40, 4, 254), std::nullopt);
  EXPECT_EQ(take(q, 9), (std::vector{40, 20, 11, 21, 12, 30, 22}));
}

TEST(ServerQueue, WhatWasNamedGivesWayLast) {
  Queue q({.capacity = 4});
  for (const int i : {10, 11, 12, 13}) EXPECT_EQ(push(q, i, 1, 0), std::nullopt);
  std::vector<int> named(2);
  ASSERT_EQ(q.next(named), 2U);
  q.sent(0);
  EXPECT_EQ(push(q, 20, 2, 254), 13);
  EXPECT_EQ(push(q, 21, 2, 254), 12);
  EXPECT_EQ(push(q, 22, 2, 254), 11) << "the newest of those that were named";
  EXPECT_EQ(take(q, 9), (std::vector{20, 21, 22, 10}));
}

TEST(ServerQueue, EveryJobMayHavePacketsAndOnePlaceIsEnough) {
  Queue all({.capacity = kMaxJobs});
  for (std::uint16_t job = 1; job <= kMaxJobs; ++job) EXPECT_EQ(push(all, job, job, 100), std::nullopt);
  EXPECT_EQ(take(all, 2 * kMaxJobs).size(), kMaxJobs);
  Queue one({.capacity = 1});
  EXPECT_EQ(push(one, 1, 1, 0), std::nullopt);
  EXPECT_EQ(push(one, 2, 2, 0), 2);
  EXPECT_EQ(push(one, 3, 3, 64), 1);
  EXPECT_EQ(take(one, 2), std::vector{3});
}

}  // namespace
}  // namespace tally
