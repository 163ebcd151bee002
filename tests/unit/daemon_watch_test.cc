// What the log says of jobs: slot memory that moves between pools, whom a job waits for.

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

// The last few that a job waits for are named, servers too; a server that restarts is told of.
TEST_F(DaemonWatch, SaysWhomAFormingJobWaitsFor) {
  JobStatus& job = bulk;
  const RankStatus there{.joined = true, .instance = 9};
  job = {.id = JobId{1}, .name = "bulk", .phase = JobPhase::kForming, .world = 5};
  job.missing = 0b11110;
  job.missing_servers = 0b10;
  job.ranks = {there, {}, {}, {}, {}};
  job.servers = {there, {}};
  EXPECT_THAT(
      look(),
      ElementsAre("job 'bulk': forming",
                  "job 'bulk': rank 0 joined from :: (port w0); 1 of 5 ranks and 1 of 2 servers are here",
                  "job 'bulk': server 0 joined from :: (port w0); 1 of 5 ranks and 1 of 2 servers are here"));
  job.missing = 0b00100;
  job.ranks = {there, there, {}, there, there};
  EXPECT_EQ(look().at(2),
            "job 'bulk': rank 4 joined from :: (port w0); 4 of 5 ranks and 1 of 2 servers are here, waiting "
            "for rank 2 "
            "and server 1");
  job.missing = 0;
  job.missing_servers = 0b11;
  job.ranks[2] = there;
  job.servers[0] = {};
  EXPECT_EQ(look().at(1),
            "job 'bulk': server 0 is gone again; 5 of 5 ranks and 0 of 2 servers are here, waiting for "
            "servers 0 and 1");
  job.missing_servers = 0;
  job.servers = {there, there};
  look();
  job.servers[0].instance = 10;
  EXPECT_THAT(
      look(),
      ElementsAre("job 'bulk': server 0 joined from :: (port w0); 5 of 5 ranks and 2 of 2 servers are here"));
}

}  // namespace
}  // namespace tally::daemon_test
