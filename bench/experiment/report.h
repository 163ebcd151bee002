#pragma once
// What `make experiment` leaves behind: scheduling.md's goals held against the runs, tables for people and
// for programs, and a plot.

#include <string>
#include <vector>

#include "sweep.h"

namespace tally::experiment {

struct Goal {
  std::string text;
  std::string figure;
  bool reached = false;
};

// Of `shared` against the best other row at one place.
struct Contest {
  std::size_t place = 0;
  RowIndex best{};
  double ratio = 0;  // of mean completion times; above 1, `shared` is faster
};

struct Judgement {
  std::vector<Goal> goals;
  std::vector<Contest> contests;  // of all places, worst first
  std::uint64_t wrong = 0;        // elements of sums, in all runs
};

[[nodiscard]] Judgement judge(const Grid& grid, const Losses& losses, const std::vector<Regime>& regimes,
                              const std::vector<Urgent>& urgent);

struct Report {
  const Grid& grid;
  const Losses& losses;
  const std::vector<Regime>& regimes;
  const std::vector<Urgent>& urgent;
  const Judgement& judgement;
  const Setting& base;
};

[[nodiscard]] std::string markdown_of(const Report& report);
[[nodiscard]] std::string json_of(const Report& report);
// Speed-up over ATP (hash) by share of the slots, one panel for each state of the servers.
[[nodiscard]] std::string svg_of(const Grid& grid);

}  // namespace tally::experiment
