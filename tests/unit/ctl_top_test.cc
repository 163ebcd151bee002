// Frames of the live view.

#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ctl/top.h"
#include "text/text.h"

namespace tally::ctl_test {
namespace {

using ctl::Json;
using testing::HasSubstr;
using testing::Not;

Json box(double seconds, std::uint64_t results, std::uint64_t packets) {
  return {{"instance", "rack1"},
          {"now_ns", static_cast<std::uint64_t>(seconds * 1e9)},
          {"uptime_ns", 61'000'000'000ULL},
          {"mbufs_in_use", 1234},
          {"health", {{"state", "degraded"}}},
          {"jobs",
           {{{"name", "resnet"},
             {"phase", "running"},
             {"alive", 3},
             {"workers", 4},
             {"results", results},
             {"contributions", 4 * results},
             {"repeats", 0},
             {"filling", 256},
             {"late", {2}},
             {"late_text", "rank 2 (10.0.0.13): silent for 3.0 s"}}}},
          {"ports",
           {{{"name", "w0"},
             {"link", "up"},
             {"rx_packets", packets},
             {"rx_bytes", 1'500 * packets},
             {"tx_packets", 0},
             {"tx_bytes", 0}}}},
          {"cores",
           {{{"core", 0}, {"cycles", static_cast<std::uint64_t>(seconds * 1e9)}, {"busy_cycles", packets}}}},
          {"drops",
           {{{"name", "stale"},
             {"where", "job"},
             {"job", "resnet"},
             {"count", packets},
             {"sentence", "The packet is old."},
             {"advice", "Look."}}}}};
}

std::size_t widest(const std::string& frame) {
  std::size_t most = 0;
  for (std::size_t at = 0; at < frame.size();) {
    const std::size_t end = frame.find('\n', at);
    most = std::max(most, end - at);
    at = end + 1;
  }
  return most;
}

TEST(CtlTop, HasRatesProgressAndTheLateOnes) {
  const std::string frame = ctl::top_frame(box(10, 1'000, 0), box(12, 5'000, 2'000'000'000), {.height = 0});
  EXPECT_THAT(frame, HasSubstr("resnet  running    3/4    5.00k  2.00k    8.00k         0      256     1\n"));
  EXPECT_THAT(frame, HasSubstr("late in resnet: rank 2 (10.0.0.13): silent for 3.0 s\n"));
  EXPECT_THAT(frame, HasSubstr("w0    up       1.00G     12.0T"));
  EXPECT_THAT(frame, HasSubstr("0 100% busy"));
  EXPECT_THAT(frame,
              HasSubstr("dropped stale of resnet: 2,000,000,000, 1.00G/s\n    The packet is old. Look.\n"));
  EXPECT_LE(widest(frame), 80U) << frame;
  EXPECT_THAT(frame, Not(HasSubstr("\x1b")));
}

TEST(CtlTop, TheFirstFrameHasNoRates) {
  const std::string frame = ctl::top_frame(nullptr, box(12, 5'000, 1), {.height = 0});
  EXPECT_THAT(frame, HasSubstr("resnet  running    3/4    5.00k      -        -         -      256     1\n"));
}

TEST(CtlTop, ADaemonThatBeganAnewDoesNotCountBackwards) {
  const std::string frame = ctl::top_frame(box(10, 5'000, 9'000), box(12, 1'000, 0), {.height = 0});
  EXPECT_THAT(frame, HasSubstr("resnet  running    3/4    1.00k      0"));
}

TEST(CtlTop, FitsASmallScreen) {
  Json now = box(12, 5'000, 7);
  const Json job = now["jobs"][0];
  const Json port = now["ports"][0];
  for (int i = 0; i < 100; ++i) {
    now["jobs"].push_back(job);
    now["ports"].push_back(port);
  }
  for (auto& one : now["jobs"]) one["name"] = std::string("a-very-long-name-that-somebody-gave");
  const std::string frame = ctl::top_frame(box(10, 1'000, 0), now, {.width = 80, .height = 24});
  EXPECT_LE(widest(frame), 80U) << frame;
  EXPECT_LE(std::count(frame.begin(), frame.end(), '\n'), 24) << frame;
  EXPECT_THAT(frame, HasSubstr(" more jobs\n"));
}

TEST(CtlTop, NonsenseIsNoFrameAndNoCrash) {
  for (const char* const answer :
       {"null", "{}", "[]", R"({"jobs":7,"ports":[1],"cores":{},"drops":[[]],"now_ns":"x"})"}) {
    EXPECT_FALSE(ctl::top_frame(Json::parse(answer), Json::parse(answer), {}).empty()) << answer;
  }
}

TEST(CtlTop, ColoursWhatNeedsAttention) {
  EXPECT_THAT(ctl::top_frame(box(10, 1, 0), box(12, 2, 0), {.colour = true}),
              HasSubstr("\x1b[31mlate in resnet"));
}

}  // namespace
}  // namespace tally::ctl_test
