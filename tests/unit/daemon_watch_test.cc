// What the log says of jobs: slot memory that moves between pools, whom a job waits for.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/watch.h"

namespace tally::daemon_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct DaemonWatch : testing::Test {
  std::vector<std::string> lines{};
  daemon::JobWatch watch{[this](daemon::LogLevel, const auto& text) { lines.emplace_back(text); },
                         std::vector<std::string>{"w0"}};
  members::JobStatus bulk{.id = JobId{1},
                          .name = "bulk",
                          .phase = members::JobPhase::kRunning,
                          .epoch = Epoch{5},
                          .generation = Generation{7},
                          .elements = 352,
                          .window = 256,
                          .largest_window = 256,
                          .wanted_window = 256};

  std::vector<std::string> look() {
    lines.clear();
    watch.look(bulk);
    return lines;
  }
};

TEST_F(DaemonWatch, SaysWhichPoolGivesToWhomAndWhenItGrows) {
  look();
  EXPECT_THAT(look(), IsEmpty());
  bulk.phase = members::JobPhase::kForming;
  bulk.limit = 64;
  bulk.shrunk_for = "urgent";
  EXPECT_THAT(look(), ElementsAre("job 'bulk': gives slot memory to job 'urgent' of higher priority: its "
                                  "window shrinks from 256 to 64",
                                  "job 'bulk': forming anew: its members are called back"));
  bulk.limit = 32;  // that was not enough
  EXPECT_THAT(look(), ElementsAre("job 'bulk': gives slot memory to job 'urgent' of higher priority: its "
                                  "window shrinks from 256 to 32"));
  bulk.phase = members::JobPhase::kRunning;
  bulk.epoch = Epoch{6};
  bulk.window = 32;
  EXPECT_THAT(look(),
              ElementsAre("job 'bulk': running: generation 0x7, epoch 0x6, window 32, 352 elements per "
                          "packet"));
  bulk.phase = members::JobPhase::kForming;
  bulk.limit = 256;
  EXPECT_THAT(look(), ElementsAre("job 'bulk': grows back: window 256 of 256",
                                  "job 'bulk': forming anew: its members are called back"));
}

// Who looks for the boxes of a name finds those of the job that has it by now.
TEST_F(DaemonWatch, AJobThatIsWithdrawnHasNoBoxesAnyMore) {
  bulk.boxes.emplace().home = 1;
  look();
  watch.gone(JobId{1});
  EXPECT_FALSE(watch.jobs().at(JobId{1}).boxes.has_value());
  bulk.id = JobId{2};
  look();
  EXPECT_EQ(watch.jobs().at(JobId{2}).boxes->home, 1U);
}

// The last few that a job waits for are named, servers too; a server that restarts is told of.
TEST_F(DaemonWatch, SaysWhomAFormingJobWaitsFor) {
  members::JobStatus& job = bulk;
  const members::RankStatus there{.joined = true, .instance = 9};
  job = {.id = JobId{1}, .name = "bulk", .phase = members::JobPhase::kForming, .world = 5};
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

TEST_F(DaemonWatch, SaysOfNobodyThatHeIsGoneWhenAllAreCalledBack) {
  const members::RankStatus there{.joined = true, .instance = 9};
  bulk = {.id = JobId{1}, .name = "bulk", .phase = members::JobPhase::kRunning, .world = 2};
  bulk.ranks = {there, there};
  look();
  bulk.phase = members::JobPhase::kForming;
  bulk.ranks = {{}, {}};
  bulk.missing = 0b11;
  EXPECT_THAT(look(), ElementsAre("job 'bulk': forming anew: its members are called back"));
  bulk.ranks = {there, {}};
  look();
  bulk.ranks = {{}, {}};
  EXPECT_THAT(look(), ElementsAre(HasSubstr("rank 0 is gone again")));
}

TEST_F(DaemonWatch, SaysOfNoRankThatItLeftWhenTheHomeEndsTheJob) {
  bulk = {.id = JobId{1}, .name = "bulk", .phase = members::JobPhase::kRunning, .world = 2};
  bulk.ranks = {{.joined = true}, {.joined = true}};
  look();
  bulk.phase = members::JobPhase::kDraining;
  EXPECT_THAT(look(), ElementsAre("job 'bulk': draining: its members go from this box"));
}

struct DaemonWatchSession : DaemonWatch {
  DaemonWatchSession() {
    bulk = {.id = JobId{1}, .name = "legacy", .phase = members::JobPhase::kDeclared, .world = 3};
    bulk.session = members::SessionStatus{1024,
                                          2048,
                                          jobs::TsiRule::kPacket,
                                          1,
                                          Mac{2, 0, 0, 0, 0, 0xFE},
                                          members::SessionLacks::kNothing,
                                          members::SessionConfig::kSystem};
    bulk.ranks.resize(3);
  }
  void run(std::uint32_t epoch) {
    bulk.phase = members::JobPhase::kRunning;
    bulk.epoch = Epoch{epoch};
    bulk.slots = {0, 73'728};
    wait(members::SessionLacks::kNothing, "");
  }
  void wait(members::SessionLacks lacks, const std::string& reason) {
    bulk.session->lacks = lacks;
    bulk.reason = reason;
  }
};

TEST_F(DaemonWatchSession, SaysWhatRunsAndWhere) {
  run(0xAB);
  EXPECT_THAT(look(), ElementsAre("job 'legacy': running, a session of SwitchML's clients: epoch 0xab, 3 "
                                  "members, 2048 slots of 1024 bytes (4608 KiB of slot memory per core), tsi "
                                  "packet, all on core 1, clients send to MAC 02:00:00:00:00:fe"));
  EXPECT_THAT(look(), IsEmpty());
  bulk.ranks[1].last_seen = 5;
  EXPECT_THAT(look(), IsEmpty()) << "nobody joins";
  run(0xAC);
  EXPECT_THAT(look(), ElementsAre(testing::HasSubstr("epoch 0xac")));
}

// With every job that comes and goes the numbers in the reason change.
TEST_F(DaemonWatchSession, SaysOnceWhyItDoesNotRun) {
  wait(members::SessionLacks::kRoom, "admission: 1 KiB is free");
  EXPECT_THAT(look(), ElementsAre("job 'legacy': admission: 1 KiB is free"));
  wait(members::SessionLacks::kRoom, "admission: 2 KiB are free");
  EXPECT_THAT(look(), IsEmpty());
  run(1);
  EXPECT_THAT(look(), ElementsAre(testing::HasSubstr("running")));
}

TEST_F(DaemonWatchSession, SaysWhatItLacksWhenThatIsAnother) {
  wait(members::SessionLacks::kTurn, "waits for 'one'");
  EXPECT_THAT(look(), ElementsAre("job 'legacy': waits for 'one'"));
  wait(members::SessionLacks::kTurn, "waits for 'two'");
  EXPECT_THAT(look(), IsEmpty());
  wait(members::SessionLacks::kRoom, "1 KiB is free");
  EXPECT_THAT(look(), ElementsAre("job 'legacy': 1 KiB is free"));
  wait(members::SessionLacks::kTurn, "waits for 'three'");
  EXPECT_THAT(look(), ElementsAre("job 'legacy': waits for 'three'"));
}

TEST_F(DaemonWatchSession, SaysThatItEnded) {
  run(1);
  look();
  lines.clear();
  watch.gone(JobId{1});
  EXPECT_THAT(lines, ElementsAre("job 'legacy': ended, and its clients are not told, as SwitchML has no word "
                                 "for it: what they send now is dropped"));
  EXPECT_EQ(watch.jobs().at(JobId{1}).phase, members::JobPhase::kEnded);
  lines.clear();
  watch.gone(JobId{1});
  EXPECT_THAT(lines, IsEmpty());
}

}  // namespace
}  // namespace tally::daemon_test
