#pragma once
// scheduling.md's goals, held against a grid.

#include <string>
#include <vector>

#include "extremes.h"
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

[[nodiscard]] Judgement judge(const Grid& grid, const std::vector<Regime>& regimes,
                              const std::vector<Urgent>& urgent);

}  // namespace tally::experiment
