// tally_experiment: scheduling.md's comparison, whole (PREFIX.md, .json and .svg) or single runs of it
// (--csv). Fails if a sum was wrong; a goal that is not reached is a result, not a failure.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "harness.h"
#include "report.h"
#include "single_runs.h"

namespace {

using namespace tally::experiment;

int compare(const SweepOptions& options, const std::string& prefix) {
  const Grid grid = run_grid(options);
  const auto losses = run_losses(options);
  const auto regimes = run_regimes(options);
  const auto urgent = run_urgent(options);
  const Judgement judgement = judge(grid, losses, regimes, urgent);
  const Setting base = base_setting(options);
  const Report report{grid, losses, regimes, urgent, judgement, base};
  tally::bench::write_text(prefix + ".md", markdown_of(report));
  tally::bench::write_text(prefix + ".json", json_of(report));
  tally::bench::write_text(prefix + ".svg", svg_of(grid));
  for (const Goal& goal : judgement.goals)
    std::printf("%-11s  %s: %s\n", goal.reached ? "reached" : "NOT REACHED", goal.text.c_str(),
                goal.figure.c_str());
  std::printf("worst of %zu regimes drawn by lot: %.3f (%s)\n", regimes.size(), regimes.front().ratio,
              regimes.front().best.c_str());
  std::printf("#wrong %lu; wrote %s.md, .json, .svg\n", judgement.wrong, prefix.c_str());
  return judgement.wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  SweepOptions sweep;
  SingleRuns single;
  std::string prefix;
  bool csv = false;
  CLI::App app{"Ways of sharing too few slots, compared in virtual time", "tally_experiment"};
  auto* const whole =
      app.add_option("PREFIX", prefix, "Run the whole comparison; write PREFIX.md, .json and .svg");
  app.add_flag("--quick", sweep.quick, "Smaller in everything: a look whether it works")->needs(whole);
  app.add_option("--jobs", sweep.threads, "Threads (default 2)")->check(CLI::Range(1, 256));
  auto* const runs =
      app.add_flag("--csv", csv, "Instead: single runs, one line each, of each row x slots x loss x seed");
  runs->excludes(whole);
  app.add_option("--row", single.rows, "A row by its name; again for another (default: shared)")
      ->needs(runs)
      ->check(CLI::IsMember(names_of_rows()));
  app.add_option("--slots", single.slots, "Slots, % of the demand (default 10)")
      ->delimiter(',')
      ->needs(runs)
      ->check(CLI::Range(0.1, 100.0));
  app.add_option("--loss", single.losses, "Packets lost on each link, % (default 0)")
      ->delimiter(',')
      ->needs(runs)
      ->check(CLI::Range(0.0, 20.0));
  app.add_option("--seed", single.seeds, "Seeds (default 201)")->delimiter(',')->needs(runs);
  app.add_option("--mix", single.mix, "Jobs: mixed, all, heavy or urgent (default mixed)")
      ->needs(runs)
      ->check(CLI::IsMember(names_of_mixes()));
  app.add_option("--r", single.r,
                 "Server rate / (workers x jobs on the server): 1/8, 1/16 or 1 (default 1/8)")
      ->needs(runs)
      ->check(CLI::IsMember(names_of_servers()));
  app.add_option("--regime", single.regimes,
                 "Instead of all that but --row: regimes drawn by lot, by number (3001 to 3060)")
      ->delimiter(',')
      ->needs(runs);
  CLI11_PARSE(app, argc, argv);
  if (csv) return run_single(single, sweep.threads);
  if (!prefix.empty()) return compare(sweep, prefix);
  std::fprintf(stderr, "tally_experiment: PREFIX or --csv is missing\nTry 'tally_experiment --help'.\n");
  return 2;
}
