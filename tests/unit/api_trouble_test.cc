// How often a transport is asked for its trouble, and that none is missed.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "api_loopback.h"

namespace tally::api_test {
namespace {

using std::chrono::milliseconds;

// Asking may cost calls of the kernel; each operation publishes.
TEST(ApiTrouble, AsksTheTransportForItsTroubleAtMostOnceAMillisecond) {
  LoopbackBox box({.workers = 1});
  auto worker = Worker::join(box.worker(0));
  ASSERT_TRUE(worker);
  std::vector<std::int32_t> one(1, 1);
  const auto begun = std::chrono::steady_clock::now();
  const std::uint64_t before = box.troubles_asked;
  std::uint64_t operations = 0;
  std::uint64_t asked = 0;
  std::uint64_t allowed = 0;
  do {
    ASSERT_TRUE(worker->allreduce_async(std::span(one)).wait());
    ++operations;
    asked = box.troubles_asked - before;
    const auto passed = std::chrono::steady_clock::now() - begun;
    allowed = static_cast<std::uint64_t>(std::chrono::duration_cast<milliseconds>(passed).count()) + 2;
  } while (operations < 1000);
  EXPECT_LE(asked, allowed) << "of " << operations << " operations";
  const std::uint64_t until_now = box.troubles_asked;
  std::this_thread::sleep_for(milliseconds(2));
  ASSERT_TRUE(worker->allreduce_async(std::span(one)).wait());
  EXPECT_GT(box.troubles_asked, until_now) << "2 ms later it is due";
  EXPECT_TRUE(worker->leave());
}

// The operation's end asks, since the last time is long ago; what comes right behind it is asked for though
// nothing happens any more. A worker is heard of every second: a process that was stopped so long may be
// late.
TEST(ApiTrouble, TroubleThatArisesRightAfterItAskedIsSeenInTheQuietThatFollows) {
  LoopbackBox box({.workers = 1});
  auto worker = Worker::join(box.worker(0));
  ASSERT_TRUE(worker);
  std::vector<std::int32_t> one(1, 1);
  int quiet = 0;
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(milliseconds(3));
    const std::uint64_t told = box.troubles_told;
    ASSERT_TRUE(worker->allreduce_async(std::span(one)).wait());
    const std::uint64_t left = box.datagrams;
    box.in_trouble = true;
    ASSERT_TRUE(eventually([&] { return box.troubles_told > told; })) << "after operation " << i;
    box.in_trouble = false;
    if (box.told_behind == left) ++quiet;
  }
  EXPECT_GT(quiet, 0) << "times before the next datagram";
  EXPECT_TRUE(worker->leave());
}

}  // namespace
}  // namespace tally::api_test
