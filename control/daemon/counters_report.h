#pragma once
// The counters as text for people: on SIGUSR1 and at the end, to stdout. Pure.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/log.h"
#include "daemon/plane.h"
#include "members/membership_status.h"
#include "tally/counters.h"
#include "tally/time.h"

namespace tally::daemon {

// Everything that the daemon counts, at one moment, as plain data. Words of different cores are read one
// after the other, so sums may be off by what moved meanwhile.

struct PortCounts {
  std::string name;
  bool link_up = false;
  dpdk::PortStatistics statistics{};
  io::DataPlane::ImpairedPort impaired{};
};

struct CoreCounts {
  std::uint16_t cpu = 0;
  std::uint64_t contributions = 0;
  io::CoreStatistics statistics{};
  server::MergeCounters server{};
};

struct JobCounts {
  members::JobStatus status{};
  JobCounters counters{};  // of all cores
  std::uint64_t occupancy = 0;
  std::uint64_t overflows = 0;
  pipeline::SlotCounters slots{};
};

// What the turns of the control thread have cost it, CPU time.
struct TurnTimes {
  std::uint64_t turns = 0;
  TimeNs all = 0;
  TimeNs longest = 0;

  void add(TimeNs took) noexcept {
    ++turns;
    all += took;
    longest = std::max(longest, took);
  }
};

struct CountersSnapshot {
  std::string instance;
  TimeNs now = 0;  // as in the status of the jobs
  TimeNs uptime = 0;
  std::uint64_t uptime_cycles = 0;  // TSC
  std::vector<PortCounts> ports{};
  std::vector<CoreCounts> cores{};
  std::vector<JobCounts> jobs{};
  JobCounters no_job{};     // packets that matched no job
  l2::SwitchCounters l2{};  // of all cores
  std::size_t hosts = 0;    // that the switch knows
  members::MembershipCounters membership{};
  std::uint64_t answers_unsent = 0;
  TurnTimes control{};
  std::uint32_t mbufs_in_use = 0;
};

// Those that were summed somewhere: in a slot or at the server.
[[nodiscard]] inline std::uint64_t contributions_of(const JobCounters& c) noexcept {
  return c.of(Verdict::kAbsorb) + c.of(Verdict::kComplete) + c.of(Verdict::kBypass) + c.of(Verdict::kEvict);
}

// What the ports, the cores and the jobs count. jobs: of interest; cpus: of each core.
[[nodiscard]] CountersSnapshot take_snapshot(const Plane& plane, const std::vector<members::JobStatus>& jobs,
                                             const std::vector<std::uint16_t>& cpus);

[[nodiscard]] std::string counters_text(const CountersSnapshot& snapshot);

// Sessions in the log and in the counters.

struct SessionNews {
  LogLevel level = LogLevel::kInfo;
  std::string text{};
};

// What is worth a line of the log between two looks. `was`: a default JobStatus if it is new.
[[nodiscard]] std::optional<SessionNews> session_news(const members::JobStatus& was,
                                                      const members::JobStatus& is);
// It is gone since the last look.
[[nodiscard]] SessionNews session_gone(const members::SessionStatus& was);

// A row for each member, with how long ago it was last seen; empty if there is no session.
[[nodiscard]] std::string sessions_text(const CountersSnapshot& all);

}  // namespace tally::daemon
