// tally_sparse: sums of which most blocks are zeros, by the product's engines in virtual time. Fails if one was wrong.
#include "comparison.h"
#include "sparse_sweep.h"

int main(int argc, char** argv) {
  using namespace tally::sparse;
  return tally::bench::run(
      argc, argv,
      {.name = "tally_sparse",
       .what = "Sums of which most blocks are zeros, in virtual time",
       .run = [](bool quick, unsigned threads) {
         const auto runs = run_all(all_cells(quick), threads);
         return tally::bench::Written{markdown_of(runs), json_of(runs), runs.size(), wrong_in(runs)};
       }});
}
