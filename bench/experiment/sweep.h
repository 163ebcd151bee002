#pragma once
// Many runs on several threads and what they amount to: the grid of the comparison; regimes drawn by lot; an
// urgent job beside bulk jobs.

#include <cstdint>
#include <span>
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

// By their names 1/8, 1/16 and 1.
[[nodiscard]] std::span<const ServerState> all_servers();

// The setting with this row instead. Rows that give nobody a slot are one row, whatever the number of slots.
[[nodiscard]] Setting of_row(Setting setting, const Row& row);

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
  double useful = 0;
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

// Loss at the place of 10 % of the slots and servers of 1/8, on every link.
struct Losses {
  std::vector<RowIndex> rows;
  std::vector<double> losses;            // 0 first
  std::vector<std::vector<Cell>> cells;  // by row, then loss
  // Time with the loss over that without.
  [[nodiscard]] double slow_down(std::size_t row, std::size_t loss) const {
    return cells[row][loss].mean_time / cells[row][0].mean_time;
  }
};
[[nodiscard]] Losses run_losses(const SweepOptions& options);

// One regime: everything that a setting has, drawn by lot.
struct Regime {
  Setting setting;   // of the row `shared`
  double ratio = 0;  // time of the best reference over that of `shared`
  std::string best;  // which reference
  std::uint64_t wrong = 0;
};
// Its setting, but for the row.
[[nodiscard]] Setting regime_of(const SweepOptions& options, std::uint64_t number);
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
