// What the log says when slot memory moves between pools.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "job_watch.h"

namespace tally::daemon_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct DaemonWatch : testing::Test {
  std::vector<std::string> lines{};
  JobWatch watch{[this](LogLevel, const auto& text) { lines.emplace_back(text); },
                 std::vector<std::string>{"w0"}};
  JobStatus bulk{.id = JobId{1},
                 .name = "bulk",
                 .phase = JobPhase::kRunning,
                 .epoch = Epoch{5},
                 .generation = Generation{7},
                 .elements = 352,
                 .window = 256,
                 .largest_window = 256,
                 .wanted_window = 256};

  std::vector<std::string> look() {
    lines.clear();
    watch.look({bulk});
    return lines;
  }
};

TEST_F(DaemonWatch, SaysWhichPoolGivesToWhomAndWhenItGrows) {
  look();
  EXPECT_THAT(look(), IsEmpty());
  bulk.phase = JobPhase::kForming;
  bulk.limit = 64;
  bulk.shrunk_for = "urgent";
  EXPECT_THAT(look(), ElementsAre("job 'bulk': gives slot memory to job 'urgent' of higher priority: its "
                                  "window shrinks from 256 to 64",
                                  "job 'bulk': forming anew: its members are called back"));
  bulk.limit = 32;  // that was not enough
  EXPECT_THAT(look(), ElementsAre("job 'bulk': gives slot memory to job 'urgent' of higher priority: its "
                                  "window shrinks from 256 to 32"));
  bulk.phase = JobPhase::kRunning;
  bulk.epoch = Epoch{6};
  bulk.window = 32;
  EXPECT_THAT(look(),
              ElementsAre("job 'bulk': running: generation 0x7, epoch 0x6, window 32, 352 elements per "
                          "packet"));
  bulk.phase = JobPhase::kForming;
  bulk.limit = 256;
  EXPECT_THAT(look(), ElementsAre("job 'bulk': grows back: window 256 of 256",
                                  "job 'bulk': forming anew: its members are called back"));
}

}  // namespace
}  // namespace tally::daemon_test
