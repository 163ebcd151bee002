// The experiment behind `make experiment`, in its smallest form: what it must be whatever its figures are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "report.h"
#include "setting.h"
#include "single_runs.h"
#include "sweep.h"
#include "training_run.h"

namespace tally::experiment {
namespace {

Setting small(RowIndex row) {
  Setting s;
  s.row = row_at(row);
  s.scale = 1024;
  s.iterations = 4;
  if (row == kPoolRow) s.slots_share = 1;  // with fewer it gets none
  return s;
}

class EveryRow : public testing::TestWithParam<int> {
 protected:
  static RowIndex row() { return static_cast<RowIndex>(GetParam()); }
};

TEST_P(EveryRow, SumsAreExactAndEveryJobEnds) {
  const Outcomes out = run(small(row()));
  EXPECT_EQ(out.wrong, 0U);
  ASSERT_EQ(out.jobs.size(), 8U);
  for (const JobOutcome& job : out.jobs) EXPECT_GT(job.time, 0) << job.model;
  EXPECT_GT(out.contributions, 0U);
}

TEST_P(EveryRow, SumsAreExactWithLoss) {
  Setting s = small(row());
  s.loss = 0.002;
  const Outcomes out = run(s);
  EXPECT_EQ(out.wrong, 0U);
  EXPECT_GT(out.lost, 0U);
  EXPECT_GT(out.retransmissions, 0U);
}

TEST_P(EveryRow, ASeedIsARun) {
  const Outcomes first = run(small(row()));
  const Outcomes again = run(small(row()));
  EXPECT_EQ(first.end, again.end);
  EXPECT_EQ(first.events, again.events);
  EXPECT_EQ(first.to_servers, again.to_servers);
  Setting other = small(row());
  ++other.seed;
  EXPECT_NE(first.end, run(other).end);
}

// Exactness alone would not show that repair stands still: with 1 % it took 40 times as long once.
// Times the time without, at 0.1 and at 1 % loss.
void expect_loss_costs_less_than(double at_a_tenth, double at_one, Setting s) {
  const double without = run(s).mean_time();
  s.loss = 0.001;
  EXPECT_LT(run(s).mean_time(), at_a_tenth * without);
  s.loss = 0.01;
  EXPECT_LT(run(s).mean_time(), at_one * without);
}

TEST(Experiment, LossCostsTimeButNotMuch) { expect_loss_costs_less_than(1.2, 2, small(kPoolRow)); }

// The goals of docs/experiments.md, at one seed. While a lost result had to be overtaken before it was asked for,
// 1 % cost 2.2 times the time: its rank held up later chunks, whose sums went to the servers.
TEST(Experiment, LossWithExternalServersCostsNoMoreThanItsGoals) {
  expect_loss_costs_less_than(1.3, 2, {.row = row_at(kSharedRow), .seed = 901, .slots_share = 0.1});
}

// The model's workers of ATP halve their windows before the queue in front of the server is long.
TEST(Experiment, AtpWithItsEcnQueuesLess) {
  Setting s = small(kAtpHashRow);
  s.scale = 128;
  const Outcomes without = run(s);
  s.row = row_at(kAtpEcnRow);
  const Outcomes with = run(s);
  EXPECT_EQ(with.wrong, 0U);
  EXPECT_LT(with.longest_queue, without.longest_queue);
}

TEST(Experiment, SlotsThatAreHeldAreNotUseful) {
  const Outcomes atp = run(small(kAtpHashRow));
  EXPECT_LT(atp.useful, atp.utilisation);
  const Outcomes shared = run(small(kSharedRow));
  EXPECT_EQ(shared.useful, shared.utilisation);
}

TEST(Experiment, SingleRunsAreWhatTheCommandLineSays) {
  SingleRuns wanted;
  EXPECT_EQ(settings_of(wanted).size(), 1U);
  EXPECT_EQ(settings_of(wanted)[0].row.name, "shared");
  wanted.rows = {"pool", "ATP hash, ECN"};
  wanted.slots = {100, 10};
  wanted.losses = {0, 1};
  wanted.seeds = {7, 8};
  wanted.mix = "heavy";
  wanted.r = "1/16";
  const auto settings = settings_of(wanted);
  ASSERT_EQ(settings.size(), 16U);
  EXPECT_EQ(settings[0].row.name, "pool");
  EXPECT_EQ(settings[1].row.name, "ATP hash, ECN");
  EXPECT_EQ(settings[0].seed, 7U);
  EXPECT_EQ(settings[0].mix, Mix::kHeavyTail);
  EXPECT_EQ(settings[0].jobs_of_server, 2U);
  EXPECT_EQ(settings[15].slots_share, 0.1);
  EXPECT_EQ(settings[15].loss, 0.01);
  wanted.regimes = {3001, 3002};
  EXPECT_EQ(settings_of(wanted).size(), 4U) << "a regime says all but the row";
  EXPECT_EQ(settings_of(wanted)[2].seed, 3002U);
  const std::string csv = csv_of({small(kPoolRow)}, {run(small(kPoolRow))});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 2);
  EXPECT_THAT(csv, testing::HasSubstr("\n\"pool\",201,mixed,100,0,"));
}

INSTANTIATE_TEST_SUITE_P(Experiment, EveryRow, testing::Range(0, static_cast<int>(kRowCount)));

TEST(Experiment, WithoutInaEverythingGoesToTheServers) {
  const Outcomes out = run(small(kNoInaRow));
  EXPECT_GE(out.to_servers, out.contributions);
  EXPECT_EQ(out.claims, 0U);
}

TEST(Experiment, WithASlotForEachChunkInFlightNothingGoesToTheServers) {
  Setting s = small(kSharedRow);
  s.slots_share = 1;
  const Outcomes out = run(s);
  EXPECT_EQ(out.denied, 0U);
  EXPECT_EQ(out.evicted, 0U);
  EXPECT_EQ(out.to_servers, 0U);
}

// ATP's slots are held for a round trip to the server, so the same slots serve fewer chunks.
TEST(Experiment, SlotsThatWaitForTheServerAggregateLess) {
  EXPECT_LT(run(small(kAtpHashRow)).aggregation(), run(small(kFcfsViaServerRow)).aggregation());
  EXPECT_LT(run(small(kAtpAnyFreeRow)).aggregation(), run(small(kNoSwapRow)).aggregation());
}

TEST(Experiment, TheNumberOfThreadsChangesNothing) {
  std::vector<Setting> settings;
  for (int row = 0; row < kRowCount; ++row) settings.push_back(small(static_cast<RowIndex>(row)));
  const auto one = run_all(settings, 1);
  const auto three = run_all(settings, 3);
  for (std::size_t i = 0; i < settings.size(); ++i) EXPECT_EQ(one[i].end, three[i].end) << i;
}

TEST(Experiment, ReportsNameEveryRowGoalAndOmission) {
  SweepOptions quick{.quick = true, .threads = 2};
  const Grid grid = run_grid(quick);
  const Losses losses = run_losses(quick);
  const auto regimes = run_regimes(quick);
  const auto urgent = run_urgent(quick);
  const Judgement judgement = judge(grid, losses, regimes, urgent);
  EXPECT_EQ(judgement.wrong, 0U);
  EXPECT_EQ(judgement.goals.size(), 7U);
  EXPECT_EQ(judgement.contests.size(), grid.places.size());
  const Setting base = base_setting(quick);
  const Report report{grid, losses, regimes, urgent, judgement, base};

  const std::string text = markdown_of(report);
  for (const Row& row : all_rows())
    EXPECT_THAT(text, testing::HasSubstr("| " + std::string(row.name) + " |"));
  for (const LeftOut& row : left_out())
    EXPECT_THAT(text, testing::HasSubstr("- " + std::string(row.name) + ":"));
  for (const Goal& goal : judgement.goals)
    EXPECT_THAT(text, testing::HasSubstr(goal.text + " | " + goal.figure));

  const auto json = nlohmann::json::parse(json_of(report));
  EXPECT_EQ(json.at("cells").size(), grid.places.size() * kRowCount);
  EXPECT_EQ(json.at("losses").size(), losses.rows.size() * losses.losses.size());
  EXPECT_EQ(json.at("wrong"), 0);
  EXPECT_EQ(json.at("regimes").size(), regimes.size());
  EXPECT_EQ(json.at("cells")[0].at("mean_jct_by_seed").size(), grid.seeds.size());

  const std::string svg = svg_of(grid);
  EXPECT_THAT(svg, testing::StartsWith("<svg"));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
}

}  // namespace
}  // namespace tally::experiment
