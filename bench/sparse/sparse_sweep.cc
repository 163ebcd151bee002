#include "sparse_sweep.h"

#include <cstdio>
#include <cstdlib>

#include "comparison.h"

namespace tally::sparse {
namespace {

// Without zeros, then what has some: of those whose blocks are alike at all ranks, and of others.
void add(std::vector<Cell>& cells, Table table, Conditions c, std::uint32_t block) {
  for (const std::uint32_t zeros : {50U, 90U, 99U})
    for (const bool alike : {true, false}) {
      c.blocks = {zeros, block, alike};
      cells.push_back({table, c});
    }
}

void add_dense(std::vector<Cell>& cells, Table table, Conditions c) {
  c.blocks = {};
  cells.push_back({table, c});
}

}  // namespace

std::vector<Cell> all_cells(bool quick) {
  std::vector<Cell> cells;
  Conditions usual;
  if (quick) usual.values /= 8;
  for (const double gbps : {10.0, 100.0})
    for (const std::uint32_t workers : {8U, 4U, 2U})
      for (const bool floats : {false, true}) {
        Conditions c = usual;
        c.window = 4'096;
        c.gbps = gbps;
        c.workers = workers;
        c.floats = floats;
        add_dense(cells, Table::kHeadline, c);
        for (const std::uint32_t block : {256U, 16U}) add(cells, Table::kHeadline, c, block);
      }
  Conditions four = usual;
  four.workers = 4;
  for (const TimeNs hop : {500U, 5'000U})
    for (const std::uint32_t window : {64U, 256U, 1'024U, 4'096U}) {
      Conditions c = four;
      c.hop = hop;
      c.window = window;
      add_dense(cells, Table::kWindows, c);
      add(cells, Table::kWindows, c, 256);
    }
  for (const double gbps : {10.0, 100.0}) {
    Conditions c = four;
    c.gbps = gbps;
    c.box = Box::kProduct;
    add_dense(cells, Table::kBox, c);
    add(cells, Table::kBox, c, 256);
  }
  return cells;
}

std::vector<Done> run_all(const std::vector<Cell>& cells, unsigned threads) {
  std::vector<Done> done(cells.size());
  bench::on_threads(threads, cells.size(), [&](std::size_t i) {
    const Conditions& c = cells[i].conditions;
    const auto measured = run(c);
    if (!measured) {
      std::fprintf(stderr, "tally_sparse: %u workers, %u %% of blocks of %u: %s\n", c.workers, c.blocks.zeros,
                   c.blocks.block, measured.error().text().c_str());
      std::exit(1);
    }
    done[i] = {cells[i], *measured};
    std::fprintf(stderr, "%zu of %zu: %u workers, %.0f Gbit/s, %u %% of blocks of %u: %.2f of ideal\n", i + 1,
                 cells.size(), c.workers, c.gbps, c.blocks.zeros, c.blocks.block, done[i].of_ideal());
  });
  return done;
}

}  // namespace tally::sparse
