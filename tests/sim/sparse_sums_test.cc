// Sums of which most blocks are zeros (bench/sparse): what their links cannot do without, and how near they come to it.

#include <gtest/gtest.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "blocks.h"
#include "sparse_sweep.h"

namespace tally::sparse {
namespace {

using bench::Blocks;

TEST(SparseSums, what_must_travel_is_packets_of_rows_and_runs_of_nothing) {
  constexpr std::uint32_t kHeaders = 100;
  const bench::Sum sum{.values = 3 * 352, .chunk = 352, .headers = kHeaders};
  EXPECT_EQ(bench::least_bytes({.zeros = 0}, sum, 1), 3 * (kHeaders + 1'408));
  EXPECT_EQ(bench::least_bytes({.zeros = 100}, sum, 0b1111), 3.0 * kHeaders / 64);
  // Which blocks have values is drawn; these are all of a packet and a half each.
  const Blocks drawn{.zeros = 50, .block = 176};
  double bytes = 0;
  for (std::uint64_t packet = 0; packet < 3; ++packet) {
    const int halves =
        (has_values(drawn, 2 * packet, 3) ? 1 : 0) + (has_values(drawn, 2 * packet + 1, 3) ? 1 : 0);
    bytes += halves == 2 ? kHeaders + 1'408 : halves == 1 ? kHeaders + 704 + 8 : kHeaders / 64.0;
  }
  EXPECT_EQ(bench::least_bytes(drawn, sum, 0b1000), bytes);
}

TEST(SparseSums, blocks_are_drawn_for_each_rank_or_for_all) {
  Blocks blocks{.zeros = 90};
  int with = 0;
  int apart = 0;
  for (std::uint64_t block = 0; block < 10'000; ++block) {
    with += has_values(blocks, block, 2) ? 1 : 0;
    apart += has_values(blocks, block, 0) != has_values(blocks, block, 2) ? 1 : 0;
  }
  EXPECT_NEAR(with, 1'000, 150);
  EXPECT_NEAR(apart, 1'800, 250);
  blocks.alike = true;
  for (std::uint64_t block = 0; block < 1'000; ++block)
    EXPECT_EQ(has_values(blocks, block, 0), has_values(blocks, block, 2));
}

Cell cell_of(std::uint32_t zeros, std::uint32_t block, bool alike, bool floats = false,
             std::uint32_t window = 4'096) {
  Cell cell;
  cell.conditions.workers = 4;
  cell.conditions.blocks = {zeros, block, alike};
  cell.conditions.floats = floats;
  cell.conditions.values = 1 << 18;
  cell.conditions.window = window;
  return cell;
}

TEST(SparseSums, come_near_to_what_links_would_take) {
  std::vector<Cell> cells{cell_of(0, 256, true)};
  for (const std::uint32_t zeros : {50U, 90U, 99U})
    for (const std::uint32_t block : {16U, 256U})
      for (const bool alike : {false, true}) cells.push_back(cell_of(zeros, block, alike));
  const std::vector<Done> runs = run_all(cells, 1);
  EXPECT_EQ(wrong_in(runs), 0U);
  for (const Done& run : runs) {
    const Blocks& blocks = run.cell.conditions.blocks;
    EXPECT_GE(run.of_ideal(), kGoal) << blocks.zeros << " % of " << blocks.block << ", alike "
                                     << blocks.alike;
    EXPECT_LE(run.of_ideal(), 1.01);
    EXPECT_EQ(run.measured.again, 0U);
  }
  EXPECT_GE(gain_of(runs, runs.back()), 20) << "99 % zeros that all have";
  const auto json = nlohmann::json::parse(json_of(runs));
  EXPECT_EQ(json["tally_sparse"]["runs"].size(), runs.size());
}

// What a window of 256 leaves is the round trips between its parts; runs are as short as it makes them.
TEST(SparseSums, of_a_small_window_send_little_more) {
  const std::vector<Done> runs = run_all({cell_of(99, 256, true, false, 256), cell_of(99, 256, true)}, 1);
  EXPECT_LT(runs[0].measured.up, 1.3 * runs[1].measured.up);
  EXPECT_GT(runs[0].measured.time, runs[1].measured.time);
}

// Blocks of many exponents. Those of blocks that go with no values are in runs, and dense sums begin with some.
TEST(SparseSums, of_floats_are_nearly_as_fast_as_of_integers) {
  std::vector<Cell> cells{cell_of(0, 256, true, true)};
  for (const std::uint32_t zeros : {90U, 99U})
    for (const std::uint32_t block : {16U, 256U})
      for (const bool alike : {false, true}) cells.push_back(cell_of(zeros, block, alike, true));
  const std::vector<Done> runs = run_all(cells, 1);
  EXPECT_EQ(wrong_in(runs), 0U);
  EXPECT_GE(runs.front().of_ideal(), 0.98) << "dense";
  for (const Done& run : runs) {
    const Blocks& blocks = run.cell.conditions.blocks;
    EXPECT_GT(run.measured.of_format, run.measured.ideal) << "the exponents are a round trip ahead";
    EXPECT_LE(run.of_format(), 1.01);
    EXPECT_GE(run.of_format(), 0.85) << blocks.zeros << " % of " << blocks.block << ", alike "
                                     << blocks.alike;
    EXPECT_EQ(run.measured.again, 0U);
  }
}

}  // namespace
}  // namespace tally::sparse
