// tally_hot_rounds: rounds of a sparse model whose hot keys are summed in the box, in virtual time. Fails if a sum was
// wrong.
#include <cstdio>

#include "comparison.h"
#include "rounds_report.h"
#include "serving.h"

namespace {

using namespace tally::rounds;

constexpr int kBatches = 301;  // that are pushed to measure

int measure_here() {
  for (const Serving& known : all_servings()) {
    const Serving here = measure(known.exponent, known.width, kBatches);
    std::printf(
        "Zipf %.1f, width %2u: %5.1f ns for a pair of a frequent key (%.1f recorded), %5.1f (%.1f) for "
        "another\n",
        here.exponent, here.width, here.near_ns, known.near_ns, here.far_ns, known.far_ns);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return tally::bench::run(
      argc, argv,
      {.name = "tally_hot_rounds",
       .what = "Rounds of a sparse model with hot keys in the box, in virtual time",
       .run =
           [](bool quick, unsigned threads) {
             const auto runs = run_all(all_cells(quick), threads);
             return tally::bench::Written{markdown_of(runs), json_of(runs), runs.size(), wrong_in(runs)};
           },
       .flag = "--measure",
       .flag_says = "Instead: what a pair costs a server on this machine; prints",
       .instead = measure_here});
}
