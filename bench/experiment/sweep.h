#pragma once
// Many runs on several threads, and what they amount to.

#include <cstdint>
#include <functional>
#include <vector>

#include "rows.h"
#include "setting.h"

namespace tally::experiment {

// The runs' outcomes in the order of the settings, whatever the number of threads.
[[nodiscard]] std::vector<Outcomes> run_all(const std::vector<Setting>& settings, unsigned threads);

struct ServerState {
  std::string_view name;
  double rate = 1;  // full packets per u
  std::uint32_t jobs_of_server = 1;
};

// A place of the sweep: how scarce slots are and how fast the servers.
struct Place {
  ServerState server;
  double slots_share = 0;
};

// What the seeds of one row at one place amount to.
struct Cell {
  std::vector<double> times;  // mean job completion time of each seed, u
  double mean_time = 0;
  double p99_time = 0;  // over all jobs of all seeds
  double aggregation = 0;
  double utilisation = 0;
  double evictions = 0;  // per run
  double server_gigabytes = 0;
  double retransmissions = 0;  // share of the contributions
  std::uint64_t wrong = 0;
  std::uint64_t queue_drops = 0;
};

struct Grid {
  std::vector<Place> places;
  std::vector<std::uint64_t> seeds;
  std::vector<std::vector<Cell>> cells;  // by place, then row

  [[nodiscard]] const Cell& at(std::size_t place, RowIndex row) const { return cells[place][row]; }
  // Mean over the seeds of the ratio of mean completion times: above 1, `row` is faster.
  [[nodiscard]] double speed_up(std::size_t place, RowIndex row, RowIndex over) const;
};

struct SweepOptions {
  bool quick = false;
  unsigned threads = 2;
};

[[nodiscard]] Grid run_grid(const SweepOptions& options);

// The fixed mix everywhere; `quick` is smaller in everything.
[[nodiscard]] Setting base_setting(const SweepOptions& options);

}  // namespace tally::experiment
