#pragma once
// Many runs on several threads and what they amount to: the grid of the comparison; regimes drawn by lot; an
// urgent job beside bulk jobs.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

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

// One regime: everything that a setting has, drawn by lot.
struct Regime {
  Setting setting;   // of the row `shared`
  double ratio = 0;  // time of the best reference over that of `shared`
  std::string best;  // which reference
  std::uint64_t wrong = 0;
};
// Worst first.
[[nodiscard]] std::vector<Regime> run_regimes(const SweepOptions& options);

// A job of the highest class beside eight of the lowest, at one place.
struct Urgent {
  double slots_share = 0;
  double alone = 0;  // its time without the others, u
  double beside = 0;
  std::uint64_t wrong = 0;
  [[nodiscard]] double speed() const { return alone / beside; }
};
[[nodiscard]] std::vector<Urgent> run_urgent(const SweepOptions& options);

}  // namespace tally::experiment
