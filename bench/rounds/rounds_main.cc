// tally_hot_rounds: rounds of a sparse model whose hot keys are summed in the box, in virtual time. Fails if a sum was
// wrong.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "harness.h"
#include "rounds_report.h"
#include "serving.h"

namespace {

using namespace tally::rounds;

constexpr int kBatches = 301;  // that are pushed to measure

void measure_here() {
  for (const Serving& known : all_servings()) {
    const Serving here = measure(known.exponent, known.width, kBatches);
    std::printf(
        "Zipf %.1f, width %2u: %5.1f ns for a pair of a frequent key (%.1f recorded), %5.1f (%.1f) for "
        "another\n",
        here.exponent, here.width, here.near_ns, known.near_ns, here.far_ns, known.far_ns);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string prefix;
  bool quick = false;
  bool measures = false;
  unsigned threads = 2;
  CLI::App app{"Rounds of a sparse model with hot keys in the box, in virtual time", "tally_hot_rounds"};
  app.add_option("PREFIX", prefix, "Writes PREFIX.md and PREFIX.json");
  app.add_flag("--measure", measures, "Instead: what a pair costs a server on this machine; prints");
  app.add_flag("--quick", quick, "Smaller in everything: a look whether it works");
  app.add_option("--jobs", threads, "Threads (default 2)")->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  if (measures) {
    measure_here();
    return 0;
  }
  if (prefix.empty()) {
    std::fprintf(stderr,
                 "tally_hot_rounds: PREFIX or --measure is missing\nTry 'tally_hot_rounds --help'.\n");
    return 2;
  }
  const auto runs = run_all(all_cells(quick), threads);
  tally::bench::write_text(prefix + ".md", markdown_of(runs));
  tally::bench::write_text(prefix + ".json", json_of(runs));
  const auto wrong = wrong_in(runs);
  std::printf("#wrong %lu in %zu runs; wrote %s.md and .json\n", wrong, runs.size(), prefix.c_str());
  return wrong == 0 ? 0 : 1;
}
