// What the daemon tells of links, cores and memory, and how often.

#include <gtest/gtest.h>

#include "daemon/log.h"
#include "daemon/watch.h"
#include "daemon_plane.h"

namespace tally::daemon_test {
namespace {

class DaemonBox : public testing::Test {
 protected:
  void look(TimeNs by = daemon::kBoxLook) {
    now += by;
    for (std::size_t core = 0; core < plane.cores(); ++core) {
      if (core != stuck) plane.core_statistics[core].last_turn = now - kMillisecond;
    }
    watch.look(now);
  }

  TimeNs now = 100 * kSecond;
  std::size_t stuck = 99;
  FakePlane plane;
  Journal journal;
  daemon::JobWatch jobs{journal.sink(), {"w0", "w1"}};
  daemon::BoxWatch watch{plane, jobs, journal.sink(), now};
};

TEST_F(DaemonBox, QuietWhileNothingHappens) {
  for (int i = 0; i < 20; ++i) look();
  EXPECT_TRUE(journal.lines.empty()) << journal.all();
}

TEST_F(DaemonBox, LinksThatComeAndGoAreTold) {
  plane.links[1].up = true;
  look();
  look();
  plane.links[1].up = false;
  look();
  EXPECT_EQ(journal.all(), "port w1: link up\nport w1: link down\n");
}

// The operator reads in one line what is wrong and who suffers from it.
TEST_F(DaemonBox, WhyALinkIsDownAndWhoIsCutOffIsTold) {
  members::JobStatus job{.id = JobId{1}, .name = "resnet", .phase = members::JobPhase::kRunning, .world = 3};
  job.ranks.resize(3);
  for (members::RankStatus& rank : job.ranks) rank = {.joined = true, .binding = {.port = PortIndex{1}}};
  job.ranks[1].binding.port = PortIndex{0};
  plane.links = {{.up = true}, {.up = true}};
  jobs.look(job);
  look();
  journal.lines.clear();
  plane.links[1] = {.up = false, .why = "interface p1 is gone"};
  look();
  look();
  EXPECT_EQ(journal.all(),
            "port w1: link down: interface p1 is gone; cut off: job 'resnet': ranks 0 and 2\n");
  EXPECT_EQ(journal.lines[0].first, daemon::LogLevel::kWarning);
}

TEST_F(DaemonBox, APortThatWasOpenedAgainBetweenTwoLooksIsTold) {
  plane.links[0].up = true;
  look();
  journal.lines.clear();
  plane.links[0].openings = 1;
  look();
  look();
  EXPECT_EQ(journal.all(),
            "port w0: its interface is a new one; the port is opened on it again\nport w0: link up\n");
}

// Hosts that know another MAC for the box's address learn the right one.
TEST_F(DaemonBox, TheBoxAnnouncesItselfTwiceWhereALinkComesUp) {
  plane.links[1].up = true;
  look();
  EXPECT_EQ(plane.announced, std::vector{PortIndex{1}});
  for (int i = 0; i < 50; ++i) look();
  EXPECT_EQ(plane.announced, (std::vector{PortIndex{1}, PortIndex{1}}));
  plane.links[1].up = false;
  look();
  plane.links[1].up = true;
  look();
  EXPECT_EQ(plane.announced.size(), 3U);
  plane.links[1].openings = 1;  // another interface, and another host at its end
  look();
  EXPECT_EQ(plane.announced.size(), 4U);
  plane.links[1].up = false;
  for (int i = 0; i < 50; ++i) look();
  EXPECT_EQ(plane.announced.size(), 4U) << "nothing is said into a link that is down";
}

TEST_F(DaemonBox, ACoreThatStandsStillIsTold) {
  look();
  stuck = 1;
  for (int i = 0; i < 5; ++i) look();
  EXPECT_EQ(journal.count("data core 1 has not done a turn for"), 1U);
  EXPECT_EQ(journal.lines[0].first, daemon::LogLevel::kWarning);
  EXPECT_GE(watch.longest_silence(now), 5 * daemon::kBoxLook);
  stuck = 99;
  look();
  EXPECT_EQ(journal.count("data core 1 runs again after 601 ms"), 1U) << journal.all();
  EXPECT_LT(watch.longest_silence(now), daemon::kStalled);
}

// Beside other busy threads it may happen several times in a second.
TEST_F(DaemonBox, ACoreThatOftenStandsStillIsToldOnceAMinuteAndWhenItLasts) {
  const auto stall = [&](int looks) {
    stuck = 0;
    for (int i = 0; i < looks; ++i) look();
    stuck = 99;
    look();
  };
  for (int i = 0; i < 20; ++i) stall(3);
  EXPECT_EQ(journal.count("data core 0 has not done a turn for"), 1U) << journal.all();
  EXPECT_EQ(journal.count("data core 0 runs again"), 1U) << journal.all();
  stall(15);
  EXPECT_EQ(journal.count("data core 0 has not done a turn for 1"), 2U) << journal.all();
  EXPECT_EQ(journal.count("data core 0 runs again"), 2U) << journal.all();
  look(60 * kSecond);
  stall(3);
  EXPECT_EQ(journal.count("busy thread? So it was 20 times since this was said last"), 1U) << journal.all();
}

TEST_F(DaemonBox, ACoreThatNeverDidATurnIsMissedFromTheStart) {
  stuck = 0;
  look(daemon::kStalled);
  EXPECT_EQ(journal.count("data core 0 has not done a turn for 100 ms"), 1U) << journal.all();
}

TEST_F(DaemonBox, ExhaustedBuffersAreToldAtOnceAndThenOnceAMinute) {
  plane.core_statistics[0].no_mbuf = 3;
  look();
  EXPECT_EQ(journal.count("packet buffers ran out: 3 frames lost"), 1U);
  for (int i = 0; i < 50; ++i) {
    plane.port_statistics_[1].rx_no_mbuf += 2;
    look(kSecond);
  }
  EXPECT_EQ(journal.lines.size(), 1U);
  look(10 * kSecond);
  EXPECT_EQ(journal.count("packet buffers ran out: 100 frames lost"), 1U) << journal.all();
}

TEST_F(DaemonBox, LostControlPacketsAreTold) {
  plane.core_statistics[1].punts_lost = 5;
  look();
  look();
  EXPECT_EQ(journal.count("control packets came faster than they could be answered: 5 lost"), 1U);
  EXPECT_EQ(journal.lines.size(), 1U);
}

TEST(DaemonLogLimit, GivesABurstThenOneEachInterval) {
  daemon::LogLimit limit(2, kSecond);
  EXPECT_EQ(limit.take(0), 0U);
  EXPECT_EQ(limit.take(1), 0U);
  EXPECT_FALSE(limit.take(2));
  EXPECT_FALSE(limit.take(kSecond - 1));
  EXPECT_EQ(limit.take(kSecond), 2U);
  EXPECT_FALSE(limit.take(kSecond + 1));
  EXPECT_EQ(limit.take(100 * kSecond), 1U);
  EXPECT_EQ(limit.take(100 * kSecond), 0U);
  EXPECT_FALSE(limit.take(100 * kSecond));
}

}  // namespace
}  // namespace tally::daemon_test
