#include <algorithm>
#include <nlohmann/json.hpp>

#include "comparison.h"
#include "sparse_sweep.h"

namespace tally::sparse {
namespace {

using bench::words;

double us(double ns) { return ns / 1e3; }

const Done* dense_of(const std::vector<Done>& runs, const Done& run) {
  const auto at = std::find_if(runs.begin(), runs.end(), [&](const Done& other) {
    const Conditions& a = other.cell.conditions;
    const Conditions& b = run.cell.conditions;
    return a.blocks.zeros == 0 && other.cell.table == run.cell.table && a.workers == b.workers &&
           a.gbps == b.gbps && a.floats == b.floats && a.window == b.window && a.hop == b.hop;
  });
  return at == runs.end() ? nullptr : &*at;
}

std::string share(double of) { return words(of < kGoal ? "**%.2f**" : "%.2f", of); }

std::string lines(const std::vector<Done>& runs, Table table) {
  std::string out =
      "| Gbit/s | workers | type | zero blocks, values in one, whose | window | round trip, us | us | x "
      "dense | ideal | "
      "of ideal | of the format | box busy |\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Done& run : runs) {
    if (run.cell.table != table) continue;
    const Conditions& c = run.cell.conditions;
    const Measured& m = run.measured;
    const std::string zeros = c.blocks.zeros == 0 ? "none"
                                                  : words("%u %%, %u, %s", c.blocks.zeros, c.blocks.block,
                                                          c.blocks.alike ? "all ranks'" : "each rank's");
    out += words("| %.0f | %u | %s | %s | %u | %.1f | %.1f | %.2f | %.1f | ", c.gbps, c.workers,
                 c.floats ? "float" : "int32", zeros.c_str(), c.window, us(static_cast<double>(m.round_trip)),
                 us(static_cast<double>(m.time)), gain_of(runs, run), us(m.ideal));
    out += share(run.of_ideal()) + words(" | %.2f | %.0f %% |\n", run.of_format(), 100 * m.box);
  }
  return out + "\n";
}

}  // namespace

double gain_of(const std::vector<Done>& runs, const Done& run) {
  const Done* const dense = dense_of(runs, run);
  return dense == nullptr
             ? 0
             : static_cast<double>(dense->measured.time) / static_cast<double>(run.measured.time);
}

std::uint64_t wrong_in(const std::vector<Done>& runs) {
  std::uint64_t wrong = 0;
  for (const Done& run : runs) wrong += run.measured.wrong;
  return wrong;
}

std::string markdown_of(const std::vector<Done>& runs) {
  std::string out = "# Sums of which most blocks are zeros, in virtual time\n\n";
  out += "What it means is in [docs/sparse.md](../../docs/sparse.md). In bold what misses the goal, " +
         words("%.1f of the ideal.\n\n", kGoal);
  out += words("%zu runs; values of sums that were wrong: %lu.\n\n", runs.size(), wrong_in(runs));
  out += "## Links, workers, types, blocks\n\n" + lines(runs, Table::kHeadline);
  out += "## Round trips and windows\n\n" + lines(runs, Table::kWindows);
  out += "## A box of four cores that take what they take\n\n" + lines(runs, Table::kBox);
  return out;
}

std::string json_of(const std::vector<Done>& runs) {
  using nlohmann::json;
  json all = json::array();
  for (const Done& run : runs) {
    const Conditions& c = run.cell.conditions;
    const Measured& m = run.measured;
    all.push_back({{"table", std::string(kTableNames[static_cast<std::size_t>(run.cell.table)])},
                   {"gbps", c.gbps},
                   {"workers", c.workers},
                   {"type", c.floats ? "float" : "int32"},
                   {"zeros", c.blocks.zeros},
                   {"block", c.blocks.block},
                   {"alike", c.blocks.alike},
                   {"values", c.values},
                   {"window", c.window},
                   {"hop_ns", c.hop},
                   {"microseconds", us(static_cast<double>(m.time))},
                   {"round_trip_us", us(static_cast<double>(m.round_trip))},
                   {"ideal_us", us(m.ideal)},
                   {"of_ideal", run.of_ideal()},
                   {"of_format", run.of_format()},
                   {"gain", gain_of(runs, run)},
                   {"bytes_up", m.up},
                   {"bytes_down", m.down},
                   {"box_busy", m.box},
                   {"wrong", m.wrong},
                   {"again", m.again}});
  }
  return json{{"tally_sparse", {{"runs", all}}}}.dump(1) + "\n";
}

}  // namespace tally::sparse
