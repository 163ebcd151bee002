// Sizes, percentiles, options and tables of tally-perf.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <variant>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "help_text.h"
#include "perf/perf_options.h"
#include "perf/perf_report.h"
#include "text/text.h"

namespace tally {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Result<std::variant<perf::PerfOptions, perf::PerfHelp>> parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "tally-perf");
  return perf::parse_perf_options(static_cast<int>(arguments.size()), arguments.data());
}

perf::PerfOptions good(std::vector<const char*> arguments) {
  const auto result = parsed(std::move(arguments));
  EXPECT_TRUE(result.has_value()) << result.error().text();
  return std::get<perf::PerfOptions>(result.value());
}

perf::PerfSetting a_setting() {
  return {
      .machine = {.cpu = "A CPU", .cores = 2, .kernel = "6.1", .governor = "none visible", .version = "1"},
      .job = "resnet",
      .transport = "dpdk:net_memif0,role=client",
      .rank = 0,
      .world = 4,
      .elements = 352,
      .window = 256};
}

TEST(PerfSizes, ParsesBytesAndUnits) {
  EXPECT_EQ(text::parse_bytes("4096").value(), 4096U);
  EXPECT_EQ(text::parse_bytes("4K").value(), 4096U);
  EXPECT_EQ(text::parse_bytes("3MiB").value(), 3U << 20);
  EXPECT_EQ(text::parse_bytes("2G").value(), std::uint64_t{2} << 30);
}

TEST(PerfSizes, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-1", "1.5M", "4KB", "4 K", "1T", "99999999999999999999", "17179869184G"})
    EXPECT_FALSE(text::parse_bytes(text).has_value()) << text;
  EXPECT_THAT(text::parse_bytes("4KB").error().what, HasSubstr("'4KB'"));
}

TEST(PerfSizes, ForPeople) {
  EXPECT_EQ(text::with_commas(0), "0");
  EXPECT_EQ(text::with_commas(999), "999");
  EXPECT_EQ(text::with_commas(1000), "1,000");
  EXPECT_EQ(text::with_commas(109482240), "109,482,240");
  EXPECT_EQ(text::fixed(1.25, 1), "1.2");
  EXPECT_EQ(text::fixed(2, 3), "2.000");
}

TEST(PerfPercentiles, AreMeasuredTimesByNearestRank) {
  std::vector<double> hundred;
  for (int i = 1; i <= 100; ++i) hundred.push_back(i);
  EXPECT_EQ(perf::percentile(hundred, 0.5), 50);
  EXPECT_EQ(perf::percentile(hundred, 0.99), 99);
  EXPECT_EQ(perf::percentile(hundred, 0.999), 100);
  EXPECT_EQ(perf::percentile(hundred, 1), 100);
  EXPECT_EQ(perf::percentile({7}, 0.5), 7);
  EXPECT_EQ(perf::percentile({}, 0.5), 0);
}

TEST(PerfPercentiles, SummaryDoesNotNeedSortedTimes) {
  const auto summary = perf::summarise({30, 10, 20});
  EXPECT_EQ(summary.average, 20);
  EXPECT_EQ(summary.least, 10);
  EXPECT_EQ(summary.p50, 20);
  EXPECT_EQ(summary.p99, 30);
  EXPECT_EQ(summary.most, 30);
}

TEST(PerfOptionsTest, DefaultsAndHabitsOfNcclTests) {
  const auto none = good({});
  EXPECT_EQ(none.min_bytes, 4096U);
  EXPECT_TRUE(none.check);
  EXPECT_EQ(none.type, perf::PerfType::kFloat);
  const auto some = good({"-b", "1K", "-e", "1M", "-f", "2", "-n", "7", "-w", "0", "-c", "0", "-d", "int32"});
  EXPECT_EQ(some.min_bytes, 1024U);
  EXPECT_EQ(some.max_bytes, 1U << 20);
  EXPECT_EQ(some.factor, 2U);
  EXPECT_EQ(some.iterations, 7U);
  EXPECT_EQ(some.warm_up, 0U);
  EXPECT_FALSE(some.check);
  EXPECT_EQ(some.type, perf::PerfType::kInt32);
  EXPECT_EQ(good({"-d", "int16"}).type, perf::PerfType::kInt16);
  EXPECT_EQ(good({"-d", "exact"}).type, perf::PerfType::kExact);
  EXPECT_TRUE(good({"--zeros"}).zeros);
}

TEST(PerfOptionsTest, RefusesNonsenseInPlainWords) {
  EXPECT_THAT(parsed({"-b", "x"}).error().text(), HasSubstr("'x'"));
  EXPECT_THAT(parsed({"-b", "2M", "-e", "1M"}).error().text(), HasSubstr("at most the largest"));
  EXPECT_FALSE(parsed({"-b", "2"}).has_value());
  EXPECT_FALSE(parsed({"-f", "1"}).has_value());
  EXPECT_FALSE(parsed({"-n", "0"}).has_value());
  EXPECT_EQ(parsed({"-d", "fp16"}).error().text(), "--type: fp16 not in {float,exact,int16,int32}");
  EXPECT_FALSE(parsed({"--no-such-option"}).has_value());
}

TEST(PerfOptionsTest, WorkerFlagsGoToTheEnvironment) {
  unsetenv("TALLY_RANK");
  good({"--rank", "3"});
  EXPECT_STREQ(std::getenv("TALLY_RANK"), "3");
  unsetenv("TALLY_RANK");
}

TEST(PerfOptionsTest, HelpIsNoError) {
  const auto result = parsed({"--help"});
  ASSERT_TRUE(result.has_value());
  const std::string& text = std::get<perf::PerfHelp>(*result).text;
  check_help(text, {"--help",      "--min-bytes", "--max-bytes", "--factor",     "--iterations", "--warm-up",
                    "--check",     "--type",      "--zeros",     "--seed",       "--line-rate",  "--timeout",
                    "--all-ranks", "--json",      "--csv",       "--job",        "--rank",       "--world",
                    "--switch",    "--transport", "--address",   "--token-file", "--mtu",        "--idle"});
  EXPECT_THAT(text, HasSubstr("--type TYPE:{float,exact,int16,int32}"));
}

TEST(PerfSizesList, GoesFromSmallestToLargestInWholeElements) {
  EXPECT_THAT(perf::perf_sizes({.min_bytes = 1024, .max_bytes = 20000, .factor = 4}),
              ElementsAre(1024, 4096, 16384));
  EXPECT_THAT(perf::perf_sizes({.min_bytes = 7, .max_bytes = 7, .factor = 2}), ElementsAre(4));
  const std::uint64_t huge = ~std::uint64_t{0};
  EXPECT_THAT(perf::perf_sizes({.min_bytes = huge / 2, .max_bytes = huge, .factor = 4}).size(), 1U)
      << "no overflow";
}

TEST(PerfReport, BandwidthsAsNcclDefinesThem) {
  const perf::PerfRow row{.bytes = 1'000'000, .us = {.average = 1000}};
  EXPECT_DOUBLE_EQ(perf::algbw(row), 1.0);
  EXPECT_DOUBLE_EQ(perf::busbw(row, 4), 1.5);
  EXPECT_DOUBLE_EQ(perf::busbw(row, 1), 0);
  EXPECT_EQ(perf::algbw({}), 0);
}

TEST(PerfReport, LineShareCountsWholeFrames) {
  // One full packet: 1,510 bytes of frame, 24 more of FCS, preamble and gap less the 4 that 1,510 holds.
  const perf::PerfRow row{.bytes = 4 * 352, .us = {.average = 1.53}, .packets = 1};
  EXPECT_NEAR(perf::line_share(row, 8.0, false), 1.0, 1e-9);
  EXPECT_NEAR(perf::line_share(row, 8.0, true), 1550.0 / 1530.0, 1e-9);
  EXPECT_EQ(perf::line_share(row, 0, false), 0);
}

TEST(PerfReport, NoLineRateNoPercentage) {
  const perf::PerfRow row{.bytes = 4096, .us = {.average = 10}, .packets = 4};
  EXPECT_THAT(perf::perf_line({}, a_setting(), row), HasSubstr("n/a"));
  EXPECT_THAT(perf::perf_line({.line_rate = 100}, a_setting(), row), Not(HasSubstr("n/a")));
  EXPECT_THAT(perf::perf_line({.check = false, .line_rate = 100}, a_setting(), row), HasSubstr("n/a"))
      << "unchecked sums are not 0 wrong";
}

TEST(PerfReport, HeadWarnsOfWhatSpoilsFigures) {
  auto setting = a_setting();
  setting.machine.load = 3;
  setting.machine.governor = "powersave";
  const std::string head = perf::perf_head({}, setting);
  for (const char* part :
       {"load 3.00", "powersave", "sleeps", "virtual port", "p99.9", "N = 4 ranks, s = 28"})
    EXPECT_THAT(head, HasSubstr(part));
  setting.machine.load = 0;
  setting.machine.governor = "performance";
  setting.transport = "dpdk:0000:3b:00.0";
  setting.poll = true;
  for (const auto& warning : perf::perf_warnings({.iterations = 1000}, setting))
    EXPECT_THAT(warning, HasSubstr("Release")) << "only of this build";
}

TEST(PerfReport, ColumnsStandUnderTheirHeads) {
  const std::string head = perf::perf_head({}, a_setting());
  const std::string columns = head.substr(head.rfind('\n', head.size() - 2) + 1);
  const std::string line =
      perf::perf_line({}, a_setting(), {.bytes = 64 << 20, .us = {.average = 1234567.8}});
  EXPECT_EQ(columns.size(), line.size());
}

TEST(PerfReport, CsvAndJsonCarryTheRows) {
  const std::vector<perf::PerfRow> rows{
      {.bytes = 4096, .us = {.average = 10}, .retransmissions = 5, .wrong = 1}};
  const std::string csv = perf::perf_csv({}, a_setting(), rows);
  EXPECT_THAT(csv, HasSubstr("\n4096,1024,float,10.0,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
  const auto json = nlohmann::json::parse(perf::perf_json({.seed = 9}, a_setting(), rows));
  EXPECT_EQ(json["rows"][0]["wrong"], 1);
  EXPECT_EQ(json["rows"][0]["retransmissions"], 5);
  EXPECT_TRUE(json["rows"][0]["line_share"].is_null());
  EXPECT_EQ(json["environment"]["cpu"], "A CPU");
  EXPECT_EQ(json["seed"], 9);
}

TEST(ColumnTableTest, AlignsTextLeftAndNumbersRight) {
  text::ColumnTable table({"job", "n"});
  table.add({"resnet50", "7"});
  table.add({"x", "1,000"});
  EXPECT_EQ(table.text(), "job           n\nresnet50      7\nx         1,000\n");
}

}  // namespace
}  // namespace tally
