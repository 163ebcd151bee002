#include "goals.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace tally::experiment {
namespace {

std::string number(double x, int digits = 2) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, x);
  return text.data();
}

std::string percent(double share) { return number(100 * share, 0) + " %"; }

// At 5 to 10 % of the slots and external servers of 1/8: the least speed-up counts.
Goal faster_than(const Grid& grid, RowIndex over, double least) {
  Goal goal{.text = "at least " + number(least) + " x " + std::string(row_at(over).name) +
                    " at 5 to 10 % of the slots, r = 1/8",
            .reached = true};
  for (std::size_t i = 0; i < grid.places.size(); ++i) {
    const Place& place = grid.places[i];
    if (place.server.name != "1/8" || place.slots_share < 0.05 || place.slots_share > 0.1) continue;
    const double speed_up = grid.speed_up(i, kSharedRow, over);
    goal.figure += (goal.figure.empty() ? "" : ", ") + number(speed_up) + " at " + percent(place.slots_share);
    goal.reached = goal.reached && speed_up >= least;
  }
  return goal;
}

std::vector<Contest> contests_of(const Grid& grid) {
  std::vector<Contest> contests;
  for (std::size_t i = 0; i < grid.places.size(); ++i) {
    Contest contest{.place = i};
    for (std::size_t row = 0; row < kRowCount; ++row) {
      const auto other = static_cast<RowIndex>(row);
      if (other == kSharedRow) continue;
      const double ratio = grid.at(i, other).mean_time / grid.at(i, kSharedRow).mean_time;
      if (contest.ratio != 0 && ratio >= contest.ratio) continue;
      contest.ratio = ratio;
      contest.best = other;
    }
    contests.push_back(contest);
  }
  std::stable_sort(contests.begin(), contests.end(),
                   [](const Contest& a, const Contest& b) { return a.ratio < b.ratio; });
  return contests;
}

Goal never_far_behind(const std::vector<Contest>& contests) {
  constexpr double kLeast = 0.97;
  constexpr double kShare = 0.95;
  const auto good = static_cast<double>(
      std::count_if(contests.begin(), contests.end(), [](const Contest& c) { return c.ratio >= kLeast; }));
  const double share = good / static_cast<double>(contests.size());
  return {.text = "not below 0.97 x the best other row in 95 % of the places of the sweep",
          .figure = percent(share) + " of " + std::to_string(contests.size()) + ", the worst " +
                    number(contests.front().ratio),
          .reached = share >= kShare};
}

Goal urgent_keeps(const std::vector<Urgent>& urgent) {
  constexpr double kLeast = 0.95;
  Goal goal{.text = "a job of the highest class keeps 95 % of its speed beside 8 bulk jobs", .reached = true};
  for (const Urgent& u : urgent) {
    goal.figure +=
        (goal.figure.empty() ? "" : ", ") + number(100 * u.speed(), 1) + " % at " + percent(u.slots_share);
    goal.reached = goal.reached && u.speed() >= kLeast;
  }
  return goal;
}

}  // namespace

Judgement judge(const Grid& grid, const std::vector<Regime>& regimes, const std::vector<Urgent>& urgent) {
  Judgement j;
  j.contests = contests_of(grid);
  j.goals = {faster_than(grid, kAtpHashRow, 2.5), faster_than(grid, kAtpAnyFreeRow, 1.35),
             faster_than(grid, kPreemptiveSilenceRow, 1.1), never_far_behind(j.contests),
             urgent_keeps(urgent)};
  for (const auto& place : grid.cells)
    for (const Cell& cell : place) j.wrong += cell.wrong;
  for (const Regime& r : regimes) j.wrong += r.wrong;
  for (const Urgent& u : urgent) j.wrong += u.wrong;
  return j;
}

}  // namespace tally::experiment
