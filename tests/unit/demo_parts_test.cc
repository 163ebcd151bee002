// Layer lists, the comparison between workers, options, records and tables of the demo.

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "crc_ledger.h"
#include "demo_job.h"
#include "demo_jobs.h"
#include "demo_options.h"
#include "layer_list.h"
#include "progress_line.h"

namespace tally {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

Result<DemoOptions> parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "tally-demo");
  return parse_demo_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST(LayerListTest, ResNet50IsTheRealOne) {
  EXPECT_EQ(kResnet50.size(), 161U);
  EXPECT_EQ(parameters_of(kResnet50), 25'557'032U);
  EXPECT_EQ(kResnet50[0], 9408U);
  EXPECT_EQ(kResnet50[159], 2'048'000U);
}

TEST(LayerListTest, BertBaseIsTheRealOne) {
  EXPECT_EQ(kBertBase.size(), 199U);
  EXPECT_EQ(parameters_of(kBertBase), 109'482'240U);
  EXPECT_EQ(kBertBase[0], 23'440'896U);
  EXPECT_EQ(kBertBase[1], 393'216U);
  EXPECT_EQ(kBertBase[2], 1'536U);
  // Per layer 7,087,872 parameters in 16 tensors.
  std::uint64_t layer = 0;
  for (std::size_t i = 5; i < 21; ++i) layer += kBertBase[i];
  EXPECT_EQ(layer, 7'087'872U);
  EXPECT_EQ(kBertBase[197], 589'824U);
}

TEST(LayerListTest, DlrmIsTheRealOne) {
  EXPECT_EQ(kDlrm[0], 13U * 512U);
  EXPECT_EQ(kDlrm[5], 128U);
  EXPECT_EQ(kDlrm[6], 479U * 1024U);
  EXPECT_EQ(parameters_of(kDlrm), 2'368'897U);
}

TEST(DemoModels, AreFoundByJobName) {
  ASSERT_NE(find_model("bert"), nullptr);
  EXPECT_EQ(find_model("bert")->parameters(), 109'482'240U);
  EXPECT_EQ(find_model("gpt"), nullptr);
}

TEST(CrcLedgerTest, EqualBitsAreRightDifferentOnesAreCounted) {
  CrcLedger ledger(2, 1, 3);
  EXPECT_FALSE(ledger.report(0, 0, 2, 0xaa));
  EXPECT_FALSE(ledger.report(0, 0, 0, 0xaa));
  EXPECT_TRUE(ledger.report(0, 0, 1, 0xab));
  EXPECT_FALSE(ledger.report(0, 1, 1, 0xcc)) << "another tensor has other bits";
  EXPECT_EQ(ledger.differing(), 1U);
  EXPECT_EQ(ledger.reported(), 4U);
  EXPECT_FALSE(ledger.complete());
  EXPECT_FALSE(ledger.report(0, 1, 0, 0xcc));
  EXPECT_FALSE(ledger.report(0, 1, 2, 0xcc));
  EXPECT_TRUE(ledger.complete());
}

TEST(CrcLedgerTest, WhatNobodyAskedForIsNoProof) {
  CrcLedger ledger(1, 1, 2);
  EXPECT_FALSE(ledger.report(0, 0, 0, 1));
  EXPECT_TRUE(ledger.report(0, 0, 0, 1)) << "twice";
  EXPECT_TRUE(ledger.report(1, 0, 0, 1));
  EXPECT_TRUE(ledger.report(0, 1, 0, 1));
  EXPECT_TRUE(ledger.report(0, 0, 2, 1));
  EXPECT_EQ(ledger.differing(), 4U);
  EXPECT_FALSE(ledger.complete());
}

constexpr DemoModel kSmall{"small", "Small", std::span(kResnet50).first(2)};
constexpr DemoModel kLate{"late", "Late", std::span(kResnet50).first(2), 1, true};

DemoRecord tensor(std::uint32_t number, std::uint32_t crc, std::uint64_t wrong = 0) {
  return {.kind = DemoRecord::Kind::kTensor, .tensor = number, .crc = crc, .wrong = wrong};
}
DemoRecord finished(double reducing_s) {
  return {.kind = DemoRecord::Kind::kFinished,
          .retransmissions = 5,
          .largest_error = 0.5,
          .reducing_s = reducing_s,
          .making_s = 1,
          .checking_s = 2};
}

TEST(DemoJobTest, CountsBothKindsOfWrong) {
  DemoJob job(kSmall, 2, 1);
  const auto now = DemoJob::Clock::now();
  EXPECT_EQ(job.take(0, tensor(0, 7, 3), now), "");
  EXPECT_THAT(job.take(1, tensor(0, 8), now), HasSubstr("rank 1"));
  EXPECT_EQ(job.wrong(), 4U);
}

TEST(DemoJobTest, IsFinishedOnlyWhenAllRanksAreAndAllWasCompared) {
  DemoJob job(kSmall, 2, 1);
  const auto now = DemoJob::Clock::now();
  for (std::uint16_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(job.take(rank, tensor(0, 7), now), "");
    EXPECT_EQ(job.take(rank, finished(1 + rank), now), "");
  }
  EXPECT_FALSE(job.finished()) << "tensor 1 is missing";
  EXPECT_DOUBLE_EQ(job.share(), 9408.0 / (9408 + 64));
  EXPECT_EQ(job.take(0, tensor(1, 7), now), "");
  EXPECT_EQ(job.take(1, tensor(1, 7), now), "");
  EXPECT_TRUE(job.finished());
  EXPECT_DOUBLE_EQ(job.share(), 1);
  EXPECT_DOUBLE_EQ(job.reducing_s(), 1.5);
  EXPECT_DOUBLE_EQ(job.verifying_s(), 3);
  EXPECT_EQ(job.retransmissions(), 10U);
  EXPECT_DOUBLE_EQ(job.algbw(), (9408 + 64) * 4 / 1.5 * 1e-9);
}

TEST(DemoJobTest, HalfWayIsWhenAllAreThatDoNotComeMidway) {
  std::vector<DemoJob> jobs;
  jobs.emplace_back(kSmall, 1, 2);
  jobs.emplace_back(kSmall, 1, 1);
  jobs.emplace_back(kLate, 1, 1);
  const auto now = DemoJob::Clock::now();
  EXPECT_EQ(jobs[1].take(0, tensor(0, 7), now), "");
  EXPECT_FALSE(half_way(jobs));
  EXPECT_EQ(jobs[0].take(0, tensor(0, 7), now), "");
  EXPECT_FALSE(half_way(jobs)) << "the smaller tensor is missing";
  EXPECT_EQ(jobs[0].take(0, tensor(1, 7), now), "");
  EXPECT_TRUE(half_way(jobs));
}

TEST(DemoJobTest, TableHasALinePerJobWithItsSlots) {
  std::vector<DemoJob> jobs;
  jobs.emplace_back(*find_model("resnet50"), 4, 5);
  jobs.emplace_back(*find_model("bert"), 4, 5);
  const std::vector<DemoJobConfig> configs{{.name = "resnet50", .discipline = "pool"},
                                           {.name = "bert", .discipline = "shared", .priority = 254}};
  BoxReport report;
  for (const char* line : {"job   contributions", "bert            900", "",
                           "shared slots  denied  swaps  evicted", "bert               1  4,321      765"})
    report.take(line);
  const std::string table = demo_table(jobs, configs, report);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  EXPECT_THAT(table, HasSubstr("437,928,960"));
  EXPECT_THAT(table, ContainsRegex("resnet50 +pool +4 .* - +- +0\n"));
  EXPECT_THAT(table, ContainsRegex("bert +shared, class 3 +4 .* 4,321 +765 +0\n"));
}

TEST(DemoOptionsTest, LossIsAPercentage) {
  EXPECT_EQ(parsed({"--config", "x", "--loss", "1%"})->loss, "1%");
  EXPECT_EQ(parsed({"--config", "x", "--loss", "0.25%"})->loss, "0.25%");
  for (const char* wrong : {"1", "100%", "-1%", "1%%", "one", "", "01%", "1% "})
    EXPECT_FALSE(parsed({"--config", "x", "--loss", wrong}).has_value()) << wrong;
  EXPECT_THAT(parsed({"--config", "x", "--loss", "5"}).error().text(), HasSubstr("such as 1%"));
}

TEST(DemoOptionsTest, KernelPortsNeedTheirHosts) {
  const auto options = parsed({"--config", "x", "--driver", "af_xdp", "--hosts", "/a,/b"});
  ASSERT_TRUE(options.has_value()) << options.error().text();
  EXPECT_EQ(options->hosts, (std::vector<std::string>{"/a", "/b"}));
  EXPECT_FALSE(parsed({"--config", "x", "--driver", "af_xdp"}).has_value());
  EXPECT_FALSE(parsed({"--config", "x", "--hosts", "/a"}).has_value());
  EXPECT_FALSE(parsed({"--config", "x", "--driver", "memif", "--hosts", "/a"}).has_value());
}

TEST(DemoOptionsTest, IterationsByDefaultAndByOption) {
  EXPECT_EQ(parsed({"--config", "x"})->iterations, 4U);
  EXPECT_EQ(parsed({"--config", "x", "--loss", "1%", "--iterations", "9"})->iterations, 9U);
}

TEST(DemoOptionsTest, RolesAndWhatIsMissing) {
  EXPECT_EQ(parsed({"--config", "x"})->role, DemoOptions::Role::kParent);
  EXPECT_EQ(parsed({"worker", "--iterations", "2", "--seed", "3"})->role, DemoOptions::Role::kWorker);
  EXPECT_EQ(parsed({"--help"})->role, DemoOptions::Role::kHelp);
  EXPECT_THAT(parsed({}).error().text(), HasSubstr("--config"));
  EXPECT_FALSE(parsed({"--config", "x", "--iterations", "0"}).has_value());
}

TEST(ProgressLineTest, ShowsSharesWithAndWithoutColour) {
  const std::vector<ProgressPart> parts{{"a", 0}, {"b", 0.5}, {"c", 1}};
  EXPECT_EQ(progress_text(parts, std::chrono::seconds(7), false),
            "a [--------------------]   0 %   b [##########----------]  50 %   c [####################] 100 "
            "%   7 s");
  EXPECT_THAT(progress_text(parts, std::chrono::seconds(7), true), HasSubstr("\x1b[32m"));
}

}  // namespace
}  // namespace tally
