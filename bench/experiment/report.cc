#include "report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>

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

// At r = 1/8, one figure for each of these shares of the slots.
Goal faster_than_atp(const Grid& grid) {
  struct Least {
    double share;
    double speed_up;
  };
  constexpr std::array<Least, 5> kLeast{{{0.02, 3.4}, {0.05, 3.4}, {0.1, 3.2}, {0.25, 2.7}, {1, 1.6}}};
  Goal goal{
      .text = "at least 3.4, 3.4, 3.2, 2.7, 1.6 x ATP hash at 2, 5, 10, 25, 100 % of the slots, r = 1/8",
      .reached = true};
  for (std::size_t i = 0; i < grid.places.size(); ++i) {
    for (const Least& least : kLeast) {
      if (grid.places[i].server.name != "1/8" || grid.places[i].slots_share != least.share) continue;
      const double speed_up = grid.speed_up(i, kSharedRow, kAtpHashRow);
      goal.figure += (goal.figure.empty() ? "" : ", ") + number(speed_up) + " at " + percent(least.share);
      goal.reached = goal.reached && speed_up >= least.speed_up;
    }
  }
  return goal;
}

Goal loss_costs_little(const Losses& losses) {
  Goal goal{
      .text = "loss of 0.1 % costs at most 1.3 x the time, of 1 % at most 2 x, at 10 % of the slots, r = 1/8",
      .reached = true};
  const auto row = static_cast<std::size_t>(std::find(losses.rows.begin(), losses.rows.end(), kSharedRow) -
                                            losses.rows.begin());
  for (std::size_t i = 1; i < losses.losses.size(); ++i) {
    const double slow_down = losses.slow_down(row, i);
    const double most = losses.losses[i] <= 0.001 ? 1.3 : 2;
    goal.figure += (goal.figure.empty() ? "" : ", ") + number(slow_down) + " at " +
                   number(100 * losses.losses[i]) + " %";
    goal.reached = goal.reached && slow_down <= most;
  }
  return goal;
}

Goal never_far_behind_by_lot(const std::vector<Regime>& regimes) {
  constexpr double kLeast = 0.97;
  const auto below =
      std::count_if(regimes.begin(), regimes.end(), [](const Regime& r) { return r.ratio < kLeast; });
  return {.text = "never below 0.97 x the best reference in a regime drawn by lot",
          .figure = std::to_string(below) + " of " + std::to_string(regimes.size()) + " are, the worst " +
                    number(regimes.front().ratio),
          .reached = below == 0};
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

Judgement judge(const Grid& grid, const Losses& losses, const std::vector<Regime>& regimes,
                const std::vector<Urgent>& urgent) {
  Judgement j;
  j.contests = contests_of(grid);
  j.goals = {faster_than_atp(grid),
             faster_than(grid, kAtpAnyFreeRow, 1.35),
             faster_than(grid, kPreemptiveSilenceRow, 1.1),
             never_far_behind(j.contests),
             never_far_behind_by_lot(regimes),
             loss_costs_little(losses),
             urgent_keeps(urgent)};
  for (const auto& row : losses.cells)
    for (const Cell& cell : row) j.wrong += cell.wrong;
  for (const auto& place : grid.cells)
    for (const Cell& cell : place) j.wrong += cell.wrong;
  for (const Regime& r : regimes) j.wrong += r.wrong;
  for (const Urgent& u : urgent) j.wrong += u.wrong;
  return j;
}

namespace {

[[gnu::format(printf, 1, 2)]] std::string words(const char* format, ...) {
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  return text.data();
}

std::string named(const Place& place) {
  return words("r = %s, %.0f %% of the slots", std::string(place.server.name).c_str(),
               100 * place.slots_share);
}

std::string head_of(const Report& r) {
  const Setting& s = r.base;
  std::string out = "# Disciplines for shared slots, compared\n\n";
  out +=
      "Written by `make experiment` (bench/experiment): production pipeline, worker and server engines in "
      "virtual "
      "time. What the figures mean and where they differ from the model: [docs/experiments.md]"
      "(../../docs/experiments.md).\n\n";
  out += words(
      "%u jobs of %u workers, window %u, %zu seeds from %lu on. Unit of time u = a full packet (8,896 bytes "
      "of values) "
      "on a worker's link of 10 Gbit/s, 7.2 us. One way %.0f u, jitter %.0f u, skew %.0f %%, stalls of %.0f "
      "u with "
      "probability %g per packet, loss %g. Models smaller by %.0f. Workers' least RTO %.0f ms.\n\n",
      s.jobs, s.world, s.window, r.grid.seeds.size(), r.grid.seeds.front(), s.delay, s.jitter, 100 * s.skew,
      s.stall_time, s.stall, s.loss, s.scale, static_cast<double>(s.rto_floor) * 1e-6);
  out += words("#wrong (elements of finished sums that are not exact, in all runs): **%lu**\n\n",
               r.judgement.wrong);
  return out;
}

std::string goals_of(const Report& r) {
  std::string out = "## Goals\n\n| goal: shared is | figure | |\n|---|---|---|\n";
  for (const Goal& goal : r.judgement.goals)
    out += "| " + goal.text + " | " + goal.figure + " | " + (goal.reached ? "reached" : "**not reached**") +
           " |\n";
  out += "\nThe five places where `shared` does worst against the best other row:\n\n";
  out += "| place | best other row | its time over that of shared |\n|---|---|---|\n";
  for (std::size_t i = 0; i < r.judgement.contests.size() && i < 5; ++i) {
    const Contest& c = r.judgement.contests[i];
    out += "| " + named(r.grid.places[c.place]) + " | " + std::string(row_at(c.best).name) +
           words(" | %.3f |\n", c.ratio);
  }
  return out + "\n";
}

std::string losses_of(const Report& r) {
  std::string out =
      "## Loss\n\n10 % of the slots, r = 1/8, seeds 401 and 402. Mean JCT in u, and how many times that "
      "without loss, where each "
      "link loses so many packets; the last column is the share of contributions sent again.\n\n| row |";
  for (const double loss : r.losses.losses) out += words(" %g %% |", 100 * loss);
  out += words(" sent again at %g %% |\n|---|---|---|---|---|---|\n", 100 * r.losses.losses.back());
  for (std::size_t row = 0; row < r.losses.rows.size(); ++row) {
    out += "| " + std::string(row_at(r.losses.rows[row]).name) + " |";
    for (std::size_t i = 0; i < r.losses.losses.size(); ++i)
      out += words(" %.0f (%.2f) |", r.losses.cells[row][i].mean_time, r.losses.slow_down(row, i));
    out += words(" %.1f %% |\n", 100 * r.losses.cells[row].back().retransmissions);
  }
  return out + "\n";
}

std::string regimes_of(const Report& r) {
  std::string out = "## Regimes drawn by lot\n\n";
  out += words(
      "%zu of them: mix, 2 to 12 jobs of 2 to 16 workers, slots 1 to 100 %%, server rate 0.5 to 2 N, one or "
      "two jobs "
      "per server, window 32 to 128, delay 2 to 32 u, jitter, skew, stalls, and loss up to 0.1 %% in half of "
      "them. "
      "References: ATP (both), FCFS, preemptive with each decay. The worst ratio of the best reference's "
      "mean "
      "completion time to that of shared is **%.3f**.\n\n",
      r.regimes.size(), r.regimes.front().ratio);
  out +=
      "| ratio | best reference | jobs x workers | slots | server rate | window | delay | skew | loss | seed "
      "|\n";
  out += "|---|---|---|---|---|---|---|---|---|---|\n";
  for (std::size_t i = 0; i < r.regimes.size() && i < 5; ++i) {
    const Regime& g = r.regimes[i];
    const Setting& s = g.setting;
    out += words("| %.3f | %s | %u x %u | %.1f %% | %.2f for %u | %u | %.0f | %.2f | %.5f | %lu |\n", g.ratio,
                 g.best.c_str(), s.jobs, s.world, 100 * s.slots_share, s.server_rate, s.jobs_of_server,
                 s.window, s.delay, s.skew, s.loss, s.seed);
  }
  return out + "\n";
}

std::string tables_of(const Report& r) {
  std::string out =
      "## Tables\n\nSpeed-up: mean over the seeds of the ratio of mean job completion times, over ATP "
      "(hash). "
      "Aggregation: share of the contributions that no server had to take, counting repetitions as packets "
      "to the server. In use: slots that are not free; useful: of these, slots to which values are still "
      "being "
      "added and not held for an acknowledgement.\n";
  for (std::size_t place = 0; place < r.grid.places.size(); ++place) {
    out += "\n### " + named(r.grid.places[place]) + "\n\n";
    out +=
        "| row | mean JCT, u | p99 JCT, u | speed-up | aggregation | slots in use | useful | evictions | to "
        "servers, "
        "GB | sent "
        "again |\n|---|---|---|---|---|---|---|---|---|---|\n";
    for (std::size_t row = 0; row < kRowCount; ++row) {
      const auto index = static_cast<RowIndex>(row);
      const Cell& c = r.grid.at(place, index);
      out += words("| %s | %.0f | %.0f | %.2f | %.1f %% | %.1f %% | %.1f %% | %.0f | %.2f | %.1f %% |\n",
                   std::string(row_at(index).name).c_str(), c.mean_time, c.p99_time,
                   r.grid.speed_up(place, index, kAtpHashRow), 100 * c.aggregation, 100 * c.utilisation,
                   100 * c.useful, c.evictions, c.server_gigabytes, 100 * c.retransmissions);
    }
  }
  return out + "\n";
}

std::string rows_text() {
  std::string out = "## Rows\n\n| row | what it is |\n|---|---|\n";
  for (const Row& row : all_rows())
    out += "| " + std::string(row.name) + " | " + std::string(row.what) + " |\n";
  out += "\nLeft out:\n\n";
  for (const LeftOut& row : left_out())
    out += "- " + std::string(row.name) + ": " + std::string(row.why) + ".\n";
  return out + "\n";
}

}  // namespace

std::string markdown_of(const Report& report) {
  return head_of(report) + goals_of(report) + losses_of(report) + regimes_of(report) + rows_text() +
         tables_of(report);
}

std::string json_of(const Report& report) {
  using nlohmann::json;
  json goals = json::array();
  for (const Goal& goal : report.judgement.goals)
    goals.push_back({{"goal", goal.text}, {"figure", goal.figure}, {"reached", goal.reached}});
  json cells = json::array();
  for (std::size_t place = 0; place < report.grid.places.size(); ++place) {
    for (std::size_t row = 0; row < kRowCount; ++row) {
      const auto index = static_cast<RowIndex>(row);
      const Cell& c = report.grid.at(place, index);
      cells.push_back({{"row", row_at(index).name},
                       {"r", report.grid.places[place].server.name},
                       {"slots_share", report.grid.places[place].slots_share},
                       {"mean_jct_by_seed", c.times},
                       {"mean_jct", c.mean_time},
                       {"p99_jct", c.p99_time},
                       {"speed_up_over_atp_hash", report.grid.speed_up(place, index, kAtpHashRow)},
                       {"aggregation", c.aggregation},
                       {"utilisation", c.utilisation},
                       {"useful", c.useful},
                       {"evictions", c.evictions},
                       {"server_gigabytes", c.server_gigabytes},
                       {"retransmissions", c.retransmissions},
                       {"queue_drops", c.queue_drops}});
    }
  }
  json losses = json::array();
  for (std::size_t row = 0; row < report.losses.rows.size(); ++row)
    for (std::size_t i = 0; i < report.losses.losses.size(); ++i)
      losses.push_back({{"row", row_at(report.losses.rows[row]).name},
                        {"loss", report.losses.losses[i]},
                        {"mean_jct", report.losses.cells[row][i].mean_time},
                        {"slow_down", report.losses.slow_down(row, i)},
                        {"retransmissions", report.losses.cells[row][i].retransmissions}});
  json regimes = json::array();
  for (const Regime& r : report.regimes) {
    const Setting& s = r.setting;
    regimes.push_back({{"seed", s.seed},
                       {"ratio", r.ratio},
                       {"best_reference", r.best},
                       {"mix", static_cast<int>(s.mix)},
                       {"jobs", s.jobs},
                       {"workers", s.world},
                       {"slots_share", s.slots_share},
                       {"server_rate", s.server_rate},
                       {"jobs_of_server", s.jobs_of_server},
                       {"window", s.window},
                       {"delay", s.delay},
                       {"jitter", s.jitter},
                       {"skew", s.skew},
                       {"stall", s.stall},
                       {"loss", s.loss}});
  }
  json urgent = json::array();
  for (const Urgent& u : report.urgent)
    urgent.push_back({{"slots_share", u.slots_share}, {"alone", u.alone}, {"beside", u.beside}});
  json out{{"wrong", report.judgement.wrong},
           {"seeds", report.grid.seeds},
           {"scale", report.base.scale},
           {"goals", goals},
           {"cells", cells},
           {"losses", losses},
           {"regimes", regimes},
           {"urgent", urgent}};
  for (const LeftOut& row : left_out()) out["left_out"][std::string(row.name)] = row.why;
  return out.dump(1) + "\n";
}

namespace {

struct Curve {
  RowIndex row;
  const char* colour;
};
// Colours that the colour-blind tell apart (Okabe, Ito).
constexpr std::array<Curve, 7> kCurves{{{kNoInaRow, "#999999"},
                                        {kPoolRow, "#56b4e9"},
                                        {kAtpAnyFreeRow, "#e69f00"},
                                        {kFcfsRow, "#cc79a7"},
                                        {kPreemptiveSilenceRow, "#009e73"},
                                        {kNoSwapRow, "#0072b2"},
                                        {kSharedRow, "#d55e00"}}};

constexpr double kWidth = 360;
constexpr double kHeight = 280;
constexpr double kLeft = 44;
constexpr double kTop = 36;
constexpr double kPlotWidth = 300;
constexpr double kPlotHeight = 200;
constexpr double kLeastShare = 0.01;

template <class... Values>
std::string element(const char* format, Values... values) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

class Panel {
 public:
  Panel(double left, double most) : left_(left + kLeft), most_(most) {}
  [[nodiscard]] double x(double share) const {
    return left_ + kPlotWidth * std::log(share / kLeastShare) / std::log(1 / kLeastShare);
  }
  [[nodiscard]] double y(double speed_up) const { return kTop + kPlotHeight * (1 - speed_up / most_); }

  [[nodiscard]] std::string axes(const std::string& title) const {
    std::string out = element("<text x='%.0f' y='20' font-weight='bold'>%s</text>\n", left_, title.c_str());
    for (int tick = 0; tick <= static_cast<int>(most_); ++tick)
      out += element(
          "<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#ddd'/><text x='%.1f' y='%.1f' "
          "text-anchor='end'>%d</text>\n",
          left_, left_ + kPlotWidth, y(tick), y(tick), left_ - 6, y(tick) + 4, tick);
    for (const double share : {0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0})
      out += element("<text x='%.1f' y='%.1f' text-anchor='middle'>%.0f</text>\n", x(share),
                     kTop + kPlotHeight + 16, 100 * share);
    return out + element("<text x='%.1f' y='%.1f' text-anchor='middle'>slots, %% of the demand</text>\n",
                         left_ + kPlotWidth / 2, kTop + kPlotHeight + 34);
  }

 private:
  double left_;
  double most_;
};

std::string curve(const Grid& grid, const Panel& panel, std::span<const std::size_t> places, const Curve& c) {
  std::string points;
  std::string dots;
  for (const std::size_t place : places) {
    const double x = panel.x(grid.places[place].slots_share);
    const double y = panel.y(grid.speed_up(place, c.row, kAtpHashRow));
    points += element("%.1f,%.1f ", x, y);
    dots += element("<circle cx='%.1f' cy='%.1f' r='2.5' fill='%s'/>", x, y, c.colour);
  }
  return element("<polyline fill='none' stroke='%s' stroke-width='%s' points='", c.colour,
                 c.row == kSharedRow ? "3" : "1.5") +
         points + "'/>" + dots + "\n";
}

}  // namespace

std::string svg_of(const Grid& grid) {
  std::vector<std::string_view> servers;
  double most = 1;
  for (std::size_t i = 0; i < grid.places.size(); ++i) {
    if (std::find(servers.begin(), servers.end(), grid.places[i].server.name) == servers.end())
      servers.push_back(grid.places[i].server.name);
    for (const Curve& c : kCurves) most = std::max(most, grid.speed_up(i, c.row, kAtpHashRow));
  }
  const double width = kWidth * static_cast<double>(servers.size());
  std::string out = element(
      "<svg xmlns='http://www.w3.org/2000/svg' width='%.0f' height='%.0f' font-family='sans-serif' "
      "font-size='11'>\n<rect width='100%%' height='100%%' fill='white'/>\n",
      width, kHeight + 40);
  for (std::size_t s = 0; s < servers.size(); ++s) {
    const Panel panel(kWidth * static_cast<double>(s), std::ceil(most));
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < grid.places.size(); ++i)
      if (grid.places[i].server.name == servers[s]) places.push_back(i);
    out += panel.axes("speed-up over ATP (hash), r = " + std::string(servers[s]));
    for (const Curve& c : kCurves) out += curve(grid, panel, places, c);
  }
  double x = kLeft;
  for (const Curve& c : kCurves) {
    const std::string name(row_at(c.row).name);
    out += element(
        "<rect x='%.0f' y='%.0f' width='14' height='4' fill='%s'/><text x='%.0f' y='%.0f'>%s</text>\n", x,
        kHeight + 18, c.colour, x + 18, kHeight + 24, name.c_str());
    x += 34 + 6.2 * static_cast<double>(name.size());
  }
  return out + "</svg>\n";
}

}  // namespace tally::experiment
