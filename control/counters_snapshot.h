#pragma once
// Everything that the daemon counts, at one moment, as plain data. Words of different cores are read one
// after the other, so sums may be off by what moved meanwhile.

#include <cstdint>
#include <string>
#include <vector>

#include "membership_status.h"
#include "plane.h"
#include "tally/counters.h"
#include "tally/time.h"

namespace tally {

struct PortCounts {
  std::string name;
  bool link_up = false;
  PortStatistics statistics{};
  DataPlane::ImpairedPort impaired{};
};

struct CoreCounts {
  std::uint16_t cpu = 0;
  std::uint64_t contributions = 0;
  CoreStatistics statistics{};
  MergeCounters server{};
};

struct JobCounts {
  JobStatus status{};
  JobCounters counters{};  // of all cores
  std::uint64_t occupancy = 0;
  std::uint64_t overflows = 0;
  SlotCounters slots{};
};

struct CountersSnapshot {
  std::string instance;
  TimeNs now = 0;  // as in the status of the jobs
  TimeNs uptime = 0;
  std::uint64_t uptime_cycles = 0;  // TSC
  std::vector<PortCounts> ports{};
  std::vector<CoreCounts> cores{};
  std::vector<JobCounts> jobs{};
  JobCounters no_job{};   // packets that matched no job
  SwitchCounters l2{};    // of all cores
  std::size_t hosts = 0;  // that the switch knows
  MembershipCounters membership{};
  std::uint64_t answers_unsent = 0;
  std::uint32_t mbufs_in_use = 0;
};

// Those that were summed somewhere: in a slot or at the server.
[[nodiscard]] inline std::uint64_t contributions_of(const JobCounters& c) noexcept {
  return c.of(Verdict::kAbsorb) + c.of(Verdict::kComplete) + c.of(Verdict::kBypass) + c.of(Verdict::kEvict);
}

// What the ports, the cores and the jobs count. jobs: of interest; cpus: of each core.
[[nodiscard]] CountersSnapshot take_snapshot(const Plane& plane, const std::vector<JobStatus>& jobs,
                                             const std::vector<std::uint16_t>& cpus);

}  // namespace tally
