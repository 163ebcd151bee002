#pragma once
// What `make experiment` leaves behind: tables for people and for programs, and a plot.

#include <string>

#include "extremes.h"
#include "goals.h"
#include "sweep.h"

namespace tally::experiment {

struct Report {
  const Grid& grid;
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
