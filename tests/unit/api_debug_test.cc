// TALLY_DEBUG: what a person reads on stderr.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api_loopback.h"

namespace tally::api_test {
namespace {

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

}  // namespace
}  // namespace tally::api_test
