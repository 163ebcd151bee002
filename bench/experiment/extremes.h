#pragma once
// Runs beside the grid: regimes drawn by lot, and an urgent job beside bulk jobs.

#include <cstdint>
#include <string>
#include <vector>

#include "sweep.h"

namespace tally::experiment {

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
