// tally_experiment [--quick] [--jobs N] PREFIX: runs scheduling.md's comparison and writes PREFIX.md, .json
// and .svg. Fails if a sum was wrong; a goal that is not reached is a result, not a failure.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "report.h"

namespace {

using namespace tally::experiment;

struct Arguments {
  SweepOptions sweep;
  std::string prefix;
};

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: tally_experiment [--quick] [--jobs N] PREFIX   (N threads, 1..256; default 2)\n");
  std::exit(2);
}

Arguments parse(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--quick") {
      a.sweep.quick = true;
    } else if (word == "--jobs" && i + 1 < argc) {
      const long n = std::strtol(argv[++i], nullptr, 10);
      if (n < 1 || n > 256) usage();
      a.sweep.threads = static_cast<unsigned>(n);
    } else if (a.prefix.empty() && !word.starts_with("-")) {
      a.prefix = word;
    } else {
      usage();
    }
  }
  if (a.prefix.empty()) usage();
  return a;
}

void write(const std::string& file, const std::string& text) {
  std::ofstream out(file);
  out << text;
  if (out.flush()) return;
  std::fprintf(stderr, "cannot write %s\n", file.c_str());
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  const Grid grid = run_grid(arguments.sweep);
  const auto regimes = run_regimes(arguments.sweep);
  const auto urgent = run_urgent(arguments.sweep);
  const Judgement judgement = judge(grid, regimes, urgent);
  const Setting base = base_setting(arguments.sweep);
  const Report report{grid, regimes, urgent, judgement, base};
  write(arguments.prefix + ".md", markdown_of(report));
  write(arguments.prefix + ".json", json_of(report));
  write(arguments.prefix + ".svg", svg_of(grid));
  for (const Goal& goal : judgement.goals)
    std::printf("%-11s  %s: %s\n", goal.reached ? "reached" : "NOT REACHED", goal.text.c_str(),
                goal.figure.c_str());
  std::printf("worst of %zu regimes drawn by lot: %.3f (%s)\n", regimes.size(), regimes.front().ratio,
              regimes.front().best.c_str());
  std::printf("#wrong %lu; wrote %s.md, .json, .svg\n", judgement.wrong, arguments.prefix.c_str());
  return judgement.wrong == 0 ? 0 : 1;
}
