// tally_routes: plans for one job over many boxes, followed by production engines in virtual time. Fails if a sum was
// wrong.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "harness.h"
#include "routes_report.h"

namespace {

using namespace tally::routes;

int test_bed() {
  std::uint64_t wrong = 0;
  for (const Done& run : run_all(test_bed_cells(), 1)) {
    const auto at = static_cast<std::size_t>(run.cell.scheme);
    std::printf("%-26s planned %.2f, measured %.2f Gbit/s of every worker\n", kSchemeNames[at].data(),
                run.planned, run.measured.rate);
    wrong += run.measured.wrong;
  }
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string prefix;
  bool quick = false;
  bool bed = false;
  unsigned threads = 2;
  CLI::App app{"Plans for many boxes, followed by the product's engines in virtual time", "tally_routes"};
  app.add_option("PREFIX", prefix, "Writes PREFIX.md and PREFIX.json");
  app.add_flag("--test-bed", bed, "Instead: 6 workers, 2 boxes, 2 servers; prints");
  app.add_flag("--quick", quick, "Smaller in everything: a look whether it works");
  app.add_option("--jobs", threads, "Threads (default 2)")->check(CLI::Range(1, 256));
  CLI11_PARSE(app, argc, argv);
  if (bed) return test_bed();
  if (prefix.empty()) {
    std::fprintf(stderr, "tally_routes: PREFIX or --test-bed is missing\nTry 'tally_routes --help'.\n");
    return 2;
  }
  const auto runs = run_all(all_cells(quick), threads);
  tally::bench::write_text(prefix + ".md", markdown_of(runs));
  tally::bench::write_text(prefix + ".json", json_of(runs));
  const auto wrong = wrong_in(runs);
  std::printf("#wrong %lu in %zu runs; wrote %s.md and .json\n", wrong, runs.size(), prefix.c_str());
  return wrong == 0 ? 0 : 1;
}
