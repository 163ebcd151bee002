// tally_routes: plans for one job over many boxes, followed by production engines in virtual time. Fails if a sum was
// wrong.
#include <cstdio>

#include "comparison.h"
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
  return tally::bench::run(
      argc, argv,
      {.name = "tally_routes",
       .what = "Plans for many boxes, followed by the product's engines in virtual time",
       .run =
           [](bool quick, unsigned threads) {
             const auto runs = run_all(all_cells(quick), threads);
             return tally::bench::Written{markdown_of(runs), json_of(runs), runs.size(), wrong_in(runs)};
           },
       .flag = "--test-bed",
       .flag_says = "Instead: 6 workers, 2 boxes, 2 servers; prints",
       .instead = test_bed});
}
