// The switch's report taken apart, and what the demo makes of it.

#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "box_report.h"
#include "slot_use.h"

namespace tally {
namespace {

using testing::HasSubstr;

constexpr const char* kReport =
    "tallyd demo: counters after 12.3 s, 7 packet buffers in use\n"
    "\n"
    "port     link  rx packets\n"
    "bert     up            17\n"
    "\n"
    "job       phase    ranks alive  contributions  results\n"
    "resnet50  running       4 of 4      1,000,000  250,000\n"
    "bert      forming       0 of 4            200       50\n"
    "\n"
    "shared slots  claims   denied   swaps  evicted\n"
    "resnet50         300  500,000  40,000   39,000\n"
    "bert              20       10   1,000    2,000\n"
    "\n"
    "nothing was dropped\n";

BoxReport report_of(const std::string& text) {
  BoxReport report;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) report.take(line);
  return report;
}

TEST(BoxReportTest, FindsCellsByTheirWords) {
  const BoxReport report = report_of(kReport);
  EXPECT_EQ(report.number("job", "resnet50", "contributions"), 1'000'000U);
  EXPECT_EQ(report.number("port", "bert", "rx packets"), 17U) << "the table decides";
  EXPECT_EQ(report.number("shared slots", "bert", "evicted"), 2'000U) << "the last column";
  EXPECT_EQ(report.number("job", "bert", "phase"), std::nullopt) << "no number";
  EXPECT_EQ(report.number("job", "bert", "swaps"), std::nullopt) << "a column of another table";
  EXPECT_EQ(report.number("job", "gpt", "results"), std::nullopt);
  EXPECT_EQ(report.number("core (CPU)", "bert", "results"), std::nullopt);
  EXPECT_EQ(report.number("running", "bert", "results"), std::nullopt);
}

TEST(BoxReportTest, TheNextReportTakesThePlaceOfTheOneBefore) {
  BoxReport report = report_of(kReport);
  EXPECT_EQ(report.text(), kReport);
  EXPECT_FALSE(report.take("tallyd demo: counters after 13.0 s, 0 packet buffers in use"));
  EXPECT_TRUE(report.take(""));
  EXPECT_EQ(report.number("job", "resnet50", "results"), std::nullopt);
  EXPECT_FALSE(report.take("job       results"));
  EXPECT_FALSE(report.take("resnet50        9"));
  EXPECT_EQ(report.number("job", "resnet50", "results"), 9U);
}

TEST(SlotUseTest, OfOneJobAndOfSeveral) {
  const BoxReport report = report_of(kReport);
  const SlotUse resnet{.contributions = 1'000'000, .denied = 500'000, .taken = 40'000, .lost = 39'000};
  EXPECT_EQ(slot_use(report, "resnet50"), resnet);
  const std::vector<std::string> both{"resnet50", "bert"};
  const SlotUse sum{.contributions = 1'000'200, .denied = 500'010, .taken = 41'000, .lost = 41'000};
  EXPECT_EQ(slot_use(report, both), sum);
  EXPECT_EQ(slot_use(report, std::vector<std::string>{"bert", "gpt"}), std::nullopt);
  EXPECT_EQ(since(sum, resnet), (SlotUse{.contributions = 200, .denied = 10, .taken = 1'000, .lost = 2'000}));
}

TEST(SlotUseTest, NothingUntilBothTablesAreThere) {
  const std::string text = kReport;
  EXPECT_EQ(slot_use(report_of(text.substr(0, text.find("shared slots"))), "bert"), std::nullopt);
}

TEST(SlotUseTest, TheStoryInTwoLines) {
  const SlotUse before{.contributions = 1'000, .denied = 250};
  EXPECT_EQ(before_text("a and b", "c", 256, before),
            "a and b are half way; of their contributions 25.0 % found none of the 256 slots. Now comes c.");
  const SlotUse late{.contributions = 2'000, .denied = 20, .taken = 1'500, .lost = 300};
  EXPECT_THAT(meanwhile_text("a and b", "c", before, late),
              HasSubstr("c is done; it took 1,200 slots from a and b"));
  EXPECT_THAT(meanwhile_text("a and b", "c", before, late), HasSubstr(" 1.0 % of its contributions"));
  EXPECT_THAT(meanwhile_text("a and b", "c", before, late), HasSubstr("Of theirs, 25.0 % "));
}

TEST(SlotUseTest, ListsNames) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed(std::vector<std::string>{"a"}), "a");
  EXPECT_EQ(listed(std::vector<std::string>{"a", "b", "c"}), "a, b and c");
}

}  // namespace
}  // namespace tally
