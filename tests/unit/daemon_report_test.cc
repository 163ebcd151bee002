// The counters as people see them. UPDATE_GOLDEN=1 writes the expected text instead; read the difference.

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "daemon/counters_report.h"
#include "daemon_plane.h"
#include "text/text.h"

namespace tally::daemon_test {
namespace {

void golden(const std::string& name, const std::string& seen) {
  const std::string path = std::string(TALLY_GOLDEN_DIRECTORY) + "/" + name;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << seen;
  std::ostringstream wanted;
  wanted << std::ifstream(path, std::ios::binary).rdbuf();
  EXPECT_EQ(seen, wanted.str()) << "of " << name << "; UPDATE_GOLDEN=1 rewrites it";
}

members::JobStatus job_of(std::uint16_t id, const std::string& name, members::JobPhase phase,
                          std::uint64_t live) {
  members::JobStatus status;
  status.id = JobId{id};
  status.name = name;
  status.phase = phase;
  status.world = 4;
  status.live = live;
  return status;
}

void set(JobCounters& counters, Verdict verdict, std::uint64_t n) {
  counters.verdicts[static_cast<std::size_t>(verdict)] = n;
}
void set(JobCounters& counters, Drop drop, std::uint64_t n) {
  counters.drops[static_cast<std::size_t>(drop)] = n;
}

void make_busy(FakePlane& plane) {
  plane.links[0].up = true;
  plane.port_statistics_[0] = {.rx_packets = 1'234'567,
                               .rx_bytes = 1'864'196'170,
                               .rx_missed = 3,
                               .tx_packets = 99'999,
                               .tx_bytes = 1'000};
  io::CoreStatistics& core = plane.core_statistics[0];
  core.frames_in = 1'000'000;
  core.frames_out = 4'000'000;
  core.results = 250'000;
  core.replicas = 1'000'000;
  core.busy_cycles = 300'000'000;
  core.turns = 5'000'000;
  core.sleeps = 17;
  core.handed_over = 12;
  plane.core_statistics[1].no_mbuf = 7;
  core.to_servers = 31'000;
  plane.impaired_.resize(2);
  plane.impaired_[0].in.lost = 10'000;
  plane.impaired_[0].in.corrupted = 7;
  plane.impaired_[1].out.duplicated = 3;
  plane.impaired_[1].out.reordered = 4;
  plane.impaired_[1].out.delayed = 1'234'567;
  plane.impaired_[1].out.overflow = 5;
  core.server_queued = 44;
  plane.core_statistics[1].server_refused = 55;
  JobCounters& first = plane.job_counters[{0, JobId{1}}];
  set(first, Verdict::kAbsorb, 750'000);
  set(first, Verdict::kComplete, 250'000);
  set(first, Verdict::kRepeat, 21);
  set(first, Drop::kStale, 12);
  set(first, Drop::kDuplicate, 1'500);
  set(plane.job_counters[{1, JobId{1}}], Verdict::kAbsorb, 5);
  set(plane.job_counters[{0, JobId{0}}], Drop::kRunt, 2);
  set(plane.job_counters[{1, JobId{0}}], Drop::kRunt, 3);
}

TEST(DaemonReport, OfABusyBox) {
  FakePlane plane;
  make_busy(plane);
  api::Snapshot all = daemon::take_snapshot(plane,
                                            {job_of(1, "resnet50", members::JobPhase::kRunning, 0xF),
                                             job_of(2, "bert", members::JobPhase::kForming, 0x5)},
                                            {1, 3});
  EXPECT_EQ(all.cores[0].contributions, 1'000'000U);
  EXPECT_EQ(all.cores[1].contributions, 5U);
  EXPECT_EQ(all.jobs[0].occupancy, 3U);
  all.instance = "rack1";
  all.uptime = 12'340 * kMillisecond;
  all.uptime_cycles = 3'000'000'000;
  all.membership.drops[static_cast<std::size_t>(members::MembershipDrop::kToken)] = 4;
  all.answers_unsent = 1;
  golden("busy.txt", daemon::counters_text(all));
}

TEST(DaemonReport, OfABoxThatDidNothing) {
  const FakePlane plane(1, 1);
  api::Snapshot all = daemon::take_snapshot(plane, {}, {0});
  all.instance = "idle";
  golden("idle.txt", daemon::counters_text(all));
}

TEST(DaemonReport, SaysHowManyResultsLackStragglers) {
  FakePlane plane;
  plane.state_of(0, JobId{1}).slots.incomplete = 1'200;
  plane.state_of(1, JobId{1}).slots.incomplete = 34;
  plane.state_of(1, JobId{1}).slots.incomplete_bad = 2;
  const std::string text =
      daemon::counters_text(daemon::take_snapshot(plane,
                                                  {job_of(1, "late", members::JobPhase::kRunning, 0xF),
                                                   job_of(2, "strict", members::JobPhase::kRunning, 0x5)},
                                                  {1, 3}));
  EXPECT_NE(text.find("\nincomplete results of job late: 1,234, not sent because of wrong sums: 2\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("of job strict"), std::string::npos) << text;
}

TEST(DaemonReport, SaysWhenEachMemberOfASessionWasLastSeen) {
  const FakePlane plane;
  EXPECT_EQ(daemon::counters_text(
                daemon::take_snapshot(plane, {job_of(1, "one", members::JobPhase::kRunning, 0)}, {1, 3}))
                .find("session"),
            std::string::npos);
  members::JobStatus legacy = job_of(2, "legacy", members::JobPhase::kRunning, 1);
  legacy.world = 2;
  legacy.session = members::SessionStatus{256, 2048, jobs::TsiRule::kOpaque, 1};
  legacy.ranks.resize(2);
  for (std::uint8_t r = 0; r < 2; ++r) {
    legacy.ranks[r].binding.mac = {2, 0, 0, 0, 0, r};
    legacy.ranks[r].binding.address = mapped({10, 0, 0, r});
    legacy.ranks[r].binding.udp_port = 48864;
  }
  legacy.ranks[0].last_seen = 97 * kSecond;
  api::Snapshot all = daemon::take_snapshot(plane, {legacy}, {1, 3});
  all.now = 100 * kSecond;
  const std::string text = daemon::counters_text(all);
  EXPECT_NE(
      text.find(
          "\nsession  tsi     MAC                address   rank  UDP port  payload  slots  core  last seen\n"
          "legacy   opaque  02:00:00:00:00:00  10.0.0.0     0     48864      256   2048     1  3.0 s ago\n"
          "legacy   opaque  02:00:00:00:00:01  10.0.0.1     1     48864      256   2048     1      "
          "never\n\n"),
      std::string::npos)
      << text;
}

// Of all cores together; nothing is said of a switch that has nothing to do.
TEST(DaemonReport, SaysWhatTheSwitchDid) {
  FakePlane plane;
  EXPECT_EQ(daemon::counters_text(daemon::take_snapshot(plane, {}, {1, 3})).find("switch"),
            std::string::npos);
  l2::SwitchCounters& one = plane.core_statistics[0].l2;
  l2::SwitchCounters& other = plane.core_statistics[1].l2;
  for (int i = 0; i < 1'200; ++i) one.add(l2::SwitchFate::kForwarded);
  for (int i = 0; i < 34; ++i) other.add(l2::SwitchFate::kForwarded);
  other.add(l2::SwitchFate::kArpAnswered);
  other.add(l2::SwitchFate::kNotServed);
  one.add(l2::SwitchFate::kReserved);
  one.copies = 9;
  other.copies = 3;
  other.moved = 1;
  one.learned = 5;
  plane.known_hosts = 4;
  const std::string text = daemon::counters_text(daemon::take_snapshot(plane, {}, {1, 3}));
  EXPECT_NE(text.find("\nswitch: forwarded 1,234, ARP answered 1\n"
                      "switch, beside: copies of flooded frames 12, learned 5, moved 1\n"
                      "hosts known now: 4\n\n"
                      "dropped by the switch: reserved 1, not_served 1\n"),
            std::string::npos)
      << text;
}

TEST(DaemonReport, ManyCoresStandInBlocks) {
  const FakePlane plane(11, 1);
  const std::string text =
      daemon::counters_text(daemon::take_snapshot(plane, {}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_NE(text.find(" 7 (7)\n"), std::string::npos) << text;
  EXPECT_NE(text.find("core (CPU)           8 (8)"), std::string::npos) << text;
}

TEST(DaemonReport, DigitsAreGrouped) {
  EXPECT_EQ(text::with_commas(0), "0");
  EXPECT_EQ(text::with_commas(999), "999");
  EXPECT_EQ(text::with_commas(1'000), "1,000");
  EXPECT_EQ(text::with_commas(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(DaemonReport, SharesHaveOneDigit) {
  EXPECT_EQ(text::share_text(1, 0), "-");
  EXPECT_EQ(text::share_text(0, 10), "0.0 %");
  EXPECT_EQ(text::share_text(1, 3), "33.3 %");
  EXPECT_EQ(text::share_text(10, 10), "100.0 %");
}

TEST(DaemonReport, TablesAlignNumbersToTheRight) {
  text::ColumnTable table({"name", "n", "more"});
  table.add({"a", "1,000", "2"});
  table.add({"longer", "3"});
  EXPECT_EQ(table.text(), "name        n  more\na       1,000     2\nlonger      3\n");
}

}  // namespace
}  // namespace tally::daemon_test
