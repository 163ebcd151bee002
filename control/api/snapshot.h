#pragma once
// The box at one moment, as plain data: what the control interface answers from and what SIGUSR1 prints.
// Immutable once made. Words of different cores are read one after the other, so sums may be off by what
// moved meanwhile.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/fleet_status.h"
#include "api/plan_status.h"
#include "config/config.h"
#include "impair/faults.h"
#include "l2/forwarding.h"
#include "members/membership_status.h"
#include "pipeline/job_state.h"
#include "server/merge_table.h"
#include "tally/counters.h"
#include "tally/time.h"

namespace tally::api {

struct PortCounts {
  std::string name;
  bool link_up = false;
  std::string link_why{};  // down, and more is known: "interface eth1 is gone"
  std::uint64_t rx_packets = 0, rx_bytes = 0, rx_missed = 0, rx_errors = 0, rx_no_mbuf = 0;
  std::uint64_t tx_packets = 0, tx_bytes = 0, tx_errors = 0;
  impair::ImpairCounters impaired_in{};
  impair::ImpairCounters impaired_out{};
};

// One counter of a data core by its name, which lives for ever.
struct NamedCount {
  std::string_view name;
  bool always = false;  // else it is of no interest while it is 0
  std::uint64_t value = 0;
};

struct CoreCounts {
  std::uint16_t cpu = 0;
  std::uint64_t contributions = 0;
  std::uint64_t frames_in = 0;
  std::uint64_t busy_cycles = 0;
  TimeNs silent = 0;                 // since its last turn
  std::vector<NamedCount> counts{};  // the same names in the same order for every core
  server::MergeCounters server{};
};

struct JobCounts {
  members::JobStatus status{};
  bool declared = true;    // else it is gone, and its counters stay of interest
  bool made = false;       // by job.add; else it is the file's
  bool kept = true;        // it is there again after the next start
  JobCounters counters{};  // of all cores
  std::uint64_t occupancy = 0;
  std::uint64_t overflows = 0;
  pipeline::SlotCounters slots{};
  std::vector<TimeNs> contributed{};  // by rank: its last new contribution; 0: none
  // By rank: why nothing passes its port, "port w0: interface eth1 is gone"; empty: it does, as far as is known.
  std::vector<std::string> cut_off{};
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

// How often the configuration was read again, and what came of the last time. Unix times in nanoseconds.
struct Reloads {
  std::uint64_t good = 0;
  std::uint64_t refused = 0;  // the file had errors
  bool last_good = true;      // also at the start
  std::uint64_t last_good_at = 0;
};

struct Snapshot {
  std::string instance;
  std::uint64_t revision = 0;  // of the box, as Box::revision()
  TimeNs now = 0;              // as in the status of the jobs
  std::uint64_t unix_ns = 0;   // the same moment by the calendar
  TimeNs uptime = 0;
  std::uint64_t uptime_cycles = 0;     // TSC
  bool ending = false;                 // SIGTERM has come, or a restart
  std::vector<std::string> dormant{};  // jobs of job.add that could not be declared: a sentence each
  std::vector<PortCounts> ports{};
  std::vector<CoreCounts> cores{};
  std::vector<JobCounts> jobs{};  // by id, those that are gone too
  JobCounters no_job{};           // packets that matched no job
  l2::SwitchCounters l2{};        // of all cores
  std::size_t hosts = 0;          // that the switch knows
  members::MembershipCounters membership{};
  std::uint64_t answers_unsent = 0;
  TurnTimes control{};
  Reloads reloads{};
  std::uint32_t mbufs_in_use = 0;
  std::shared_ptr<const FleetStatus> fleet{};      // empty: the box is in none
  std::shared_ptr<const PlanStatus> plans{};       // empty: nothing plans here, boxes of a job are all alike
  std::shared_ptr<const config::Config> config{};  // in force; not empty where the interface answers
};

// Those that were summed somewhere: in a slot or at the server.
[[nodiscard]] inline std::uint64_t contributions_of(const JobCounters& c) noexcept {
  return c.of(Verdict::kAbsorb) + c.of(Verdict::kComplete) + c.of(Verdict::kBypass) + c.of(Verdict::kEvict);
}

// Results of the job, whoever finished them.
[[nodiscard]] inline std::uint64_t results_of(const JobCounts& job) noexcept {
  return job.counters.of(Verdict::kComplete) + job.slots.served;
}

// A core that did no turn for so long is told as standing still: an idle one sleeps 1 ms at most.
inline constexpr TimeNs kCoreStalled = 100 * kMillisecond;

}  // namespace tally::api
