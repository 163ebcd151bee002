// Plans on production engines over links with rates (bench/routes): every sum is exact, and takes the time that the
// planner says.

#include <gtest/gtest.h>

#include <algorithm>

#include "routes_sweep.h"

namespace tally::routes {
namespace {

Cell small(Scheme scheme) {
  Cell cell{.workers = 10, .unlike = true, .seed = 2, .scheme = scheme};
  cell.conditions.chunks = planner::kGroups;
  return cell;
}

void expect_as_planned(const Cell& cell) {
  const auto done = run_one(cell);
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->measured.wrong, 0U);
  // A window has to fill and to drain, which no plan counts.
  EXPECT_GT(done->measured.rate, 0.9 * done->planned);
  EXPECT_LT(done->measured.rate, 1.02 * done->planned);
}

TEST(Routes, APlanTakesTheTimeThatThePlannerSays) { expect_as_planned(small(Scheme::kPlanned)); }

TEST(Routes, WithoutAggregationItTakesWhatServersCanTake) { expect_as_planned(small(Scheme::kLoadOnly)); }

TEST(Routes, OwnRacksTakeWhatTheirBoxesAndServersCanTake) { expect_as_planned(small(Scheme::kOwnRack)); }

TEST(Routes, ResultsThatAreCountedTakeTheirRoom) {
  Cell cell = small(Scheme::kPlanned);
  cell.conditions.results = planner::Results::kCounted;
  expect_as_planned(cell);
}

// Different ways put packets out of order, which costs repetitions; no bit of a sum.
TEST(Routes, PacketsThatOvertakeEachOtherChangeNoSum) {
  Cell cell = small(Scheme::kServersRack);
  cell.conditions.spreading = Spreading::kAsTheyCome;
  const auto done = run_one(cell);
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->measured.wrong, 0U);
  EXPECT_GT(done->measured.again, 0U);
}

TEST(Routes, TheTestBedHasItsPrintedRates) {
  for (const Cell& cell : test_bed_cells()) {
    const auto done = run_one(cell);
    ASSERT_TRUE(done) << done.error().text();
    const auto printed = std::find_if(kTestBedRates.begin(), kTestBedRates.end(), [&](const auto& row) {
                           return row.first == cell.scheme;
                         })->second;
    EXPECT_NEAR(done->planned, printed, 0.01 * printed);
    EXPECT_NEAR(done->measured.rate, printed, 0.1 * printed);
    EXPECT_EQ(done->measured.wrong, 0U);
  }
}

TEST(Routes, PlannedIsFasterThanAtp) {
  Cell cell{.workers = 20, .scheme = Scheme::kServersRack};
  cell.conditions.chunks = planner::kGroups;
  const auto atp = run_one(cell);
  cell.scheme = Scheme::kPlanned;
  const auto planned = run_one(cell);
  ASSERT_TRUE(planned && atp);
  EXPECT_GT(planned->measured.rate, 2 * atp->at_best);
}

}  // namespace
}  // namespace tally::routes
