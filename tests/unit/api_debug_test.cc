// What a person is told: on stderr, as TALLY_DEBUG says, and of trouble on the path.
#include <gmock/gmock.h>
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
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string spoken(const std::string& debug) {
  testing::internal::CaptureStderr();
  {
    LoopbackBox box({.workers = 1, .token = "verysecret"});
    WorkerOptions options = box.worker(0);
    options.debug = debug;
    options.elements = 1024;  // more than the path carries
    auto worker = Worker::join(options);
    EXPECT_TRUE(worker);
    std::vector<std::int32_t> values(100, 1);
    EXPECT_TRUE(worker->allreduce_async(std::span(values)).wait(kPatience));
    box.run([](sim::SwitchNode& node) { node.restart(); });
    EXPECT_TRUE(worker->barrier());
    EXPECT_TRUE(worker->leave(kPatience));
  }
  return testing::internal::GetCapturedStderr();
}

TEST(ApiDebug, SilentByDefault) { EXPECT_EQ(spoken(""), ""); }

TEST(ApiDebug, InfoSaysHowItJoinedWhyItClosedAndWhatItCounted) {
  const std::string text = spoken("INFO");
  const std::string who = "tally: resnet rank 0/1: ";
  EXPECT_THAT(text, HasSubstr(who + "elements lowered from 1024 to 352: the path carries no more\n"));
  EXPECT_THAT(text, ContainsRegex(who + "joined, box 10.255.0.1 over loopback:box[0-9]+ \\(loopback in this "
                                        "process\\), elements 64, window 16, shards 1, unicast, epoch "
                                        "[0-9a-f]{8}, generation [0-9a-f]{16}, after [0-9]+ JOINs\n"));
  EXPECT_THAT(text, HasSubstr(who + "closed: left the job\n"));
  EXPECT_THAT(text, ContainsRegex(who + "end, contributions [0-9]+, results 4, retransmissions [0-9]+"));
  EXPECT_THAT(text, Not(HasSubstr("new epoch")));
  EXPECT_THAT(text, Not(HasSubstr("verysecret")));
}

TEST(ApiDebug, TraceAddsEpochsAndRejects) {
  const std::string text = spoken("TRACE");
  EXPECT_THAT(text, HasSubstr("new epoch, elements 64"));
  EXPECT_THAT(text, HasSubstr(", rejects 1"));
  EXPECT_THAT(text, Not(HasSubstr("verysecret")));
}

// How often a transport is asked for its trouble, and that none is missed.

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
