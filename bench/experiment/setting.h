#pragma once
// What one run is, and what it came to: a row of the comparison (a discipline and what the bench puts in
// front of it), the scarcity of slots, the state of the servers, the jobs. Times are in u, the time that a
// full packet takes on a worker's link, as in scheduling.md.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tally/discipline.h"
#include "tally/time.h"

namespace tally::experiment {

// What the bench does to contributions before the production pipeline sees them, and to results before they
// go to the workers. kNone: nothing, the row is production code alone.
enum class Front : std::uint8_t {
  kNone,
  kAtpHash,         // slots by hash, held until the server's acknowledgement has passed
  kAtpAnyFree,      // any free slot, held likewise
  kViaServer,       // slots are free at completion, but the result goes by way of the server
  kNoSwap,          // first arrivals that find no free slot go to the server instead of taking one
  kRandomPriority,  // every chunk has a priority drawn by lot
};

struct Row {
  std::string_view name;
  std::string_view what;  // for the report
  Discipline discipline = Discipline::kShared;
  Decay decay = Decay::kSilence;
  Front front = Front::kNone;
  bool server_only = false;  // no slot for anybody
  bool ecn = false;          // workers obey CongestionWindow
};

enum class Mix : std::uint8_t {
  kShortAndLong,  // scheduling.md's fixed mix: short jobs are recommendation and ResNet-50, long ones VGG-19,
                  // BERT
  kAll,           // the four models in turn, equally long
  kHeavyTail,     // models and lengths by lot, a few jobs much longer than the others
  kOneUrgent,     // job 0 (ResNet-50) of the highest class, the others VGG-19 of the lowest
};

struct Setting {
  Row row;
  std::uint64_t seed = 201;
  double slots_share = 0.05;         // of the demand: jobs x window
  double server_rate = 1;            // full packets per u
  std::uint32_t jobs_of_server = 1;  // how many share one
  Mix mix = Mix::kShortAndLong;
  std::uint16_t jobs = 8;
  std::uint16_t world = 8;  // workers of each
  std::uint32_t window = 64;
  std::uint32_t iterations = 8;
  double scale = 64;         // the models are smaller by this factor
  double ns_per_byte = 0.8;  // of a worker's link: 10 Gbit/s; the absolute timers of the product see it
  double delay = 8;          // one way, worker to box and box to server
  double jitter = 4;         // of arrivals at the box, uniform
  double skew = 0.05;        // mean of what a step of computing takes longer than planned
  double stall = 0.0001;     // probability per packet that the sender stalls before it
  double stall_time = 100;   // mean
  double loss = 0;           // per packet and link
  double arrivals = 2000;    // jobs begin within this time
  TimeNs rto_floor = 20 * kMillisecond;  // of the workers: the default, which allows for sleepers
  double give_up = 5e6;                  // a run that takes longer is stuck
  std::uint32_t server_queue = 4096;     // packets that wait for a server at most
  bool gap_repair = true;                // GapRepair, of the disciplines by hash
  bool only_job_0 = false;
  bool embedded = false;  // the server on the box itself instead of external ones
};

// Server rate / (N x jobs on it).
[[nodiscard]] inline double state_of(const Setting& s) {
  return s.server_rate / (s.world * s.jobs_of_server);
}

struct JobOutcome {
  std::string_view model;
  double time = 0;  // u, from its start to its last result at its last worker
};

struct Outcomes {
  std::vector<JobOutcome> jobs;
  std::uint64_t wrong = 0;            // elements of finished sums that are not exact
  std::uint64_t contributions = 0;    // without repetitions
  std::uint64_t retransmissions = 0;  // by timer and early
  std::uint64_t early = 0;
  std::uint64_t queries = 0;
  std::uint64_t to_servers = 0;  // packets
  std::uint64_t server_bytes = 0;
  std::uint64_t flushes = 0;
  std::uint64_t resends = 0;
  std::uint64_t claims = 0, denied = 0, evicted = 0, partials = 0, swept = 0, served = 0;
  std::uint64_t queue_drops = 0;  // at the queues to the servers
  std::uint64_t lost = 0;         // on links
  std::uint64_t longest_queue = 0;
  std::uint64_t events = 0;
  std::uint32_t slots = 0;
  double end = 0;          // u
  double utilisation = 0;  // slots that are not free, over slots and time
  double useful = 0;       // those of them to which values are still being added
  [[nodiscard]] double mean_time() const;
  // Share of the contributions that no server had to take.
  [[nodiscard]] double aggregation() const {
    return 1 - static_cast<double>(to_servers) / static_cast<double>(contributions);
  }
};

// The rows of the comparison.
enum RowIndex : std::uint8_t {
  kNoInaRow,
  kPoolRow,
  kAtpHashRow,
  kAtpEcnRow,
  kAtpAnyFreeRow,
  kFcfsViaServerRow,
  kFcfsRow,
  kRandomPriorityRow,
  kPreemptiveNoneRow,
  kPreemptiveSilenceRow,
  kPreemptiveDenialRow,
  kNoSwapRow,
  kSharedRow,
  kRowCount,
};

[[nodiscard]] std::span<const Row> all_rows();
[[nodiscard]] inline const Row& row_at(RowIndex index) { return all_rows()[index]; }

struct LeftOut {
  std::string_view name;
  std::string_view why;
};
[[nodiscard]] std::span<const LeftOut> left_out();

// A run that went wrong yields no figure: the program ends at once.

[[noreturn]] inline void broken(const std::string& what) {
  std::fprintf(stderr, "BROKEN, no figure: %s\n", what.c_str());
  std::exit(1);
}

}  // namespace tally::experiment
