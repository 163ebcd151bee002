#include <array>
#include <cstdarg>
#include <cstdio>

#include "reports.h"

namespace tally::experiment {
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
      "to the server.\n";
  for (std::size_t place = 0; place < r.grid.places.size(); ++place) {
    out += "\n### " + named(r.grid.places[place]) + "\n\n";
    out +=
        "| row | mean JCT, u | p99 JCT, u | speed-up | aggregation | slots in use | evictions | to servers, "
        "GB | sent "
        "again |\n|---|---|---|---|---|---|---|---|---|\n";
    for (std::size_t row = 0; row < kRowCount; ++row) {
      const auto index = static_cast<RowIndex>(row);
      const Cell& c = r.grid.at(place, index);
      out += words("| %s | %.0f | %.0f | %.2f | %.1f %% | %.1f %% | %.0f | %.2f | %.1f %% |\n",
                   std::string(row_at(index).name).c_str(), c.mean_time, c.p99_time,
                   r.grid.speed_up(place, index, kAtpHashRow), 100 * c.aggregation, 100 * c.utilisation,
                   c.evictions, c.server_gigabytes, 100 * c.retransmissions);
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
  return head_of(report) + goals_of(report) + regimes_of(report) + rows_text() + tables_of(report);
}

}  // namespace tally::experiment
