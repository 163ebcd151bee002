// A profile's arithmetic: what belongs to which row, what stamps cost, and that the rows are the whole.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "pipeline/burst.h"
#include "pipeline/fused.h"
#include "pipeline/staged.h"
#include "step_profile.h"

namespace tally::bench {
namespace {

template <class Exec>
concept HearsOfSteps = requires(Exec exec) {
  exec.enter(pipeline::Step::kRest);
};

// Reads as the TSC of a machine on which a stamp takes so long.
struct Clock {
  std::uint64_t stamp = 0;
  std::uint64_t now = 1'000'000;
  std::uint64_t operator()() noexcept { return now += stamp; }
  void work(std::uint64_t cycles) noexcept { now += cycles; }
};

constexpr std::uint64_t kStamp = 20;

// A chunk of three contributions: so many cycles in each step.
StepProfile chunk_of_three(std::uint64_t values_of_last = 90) {
  StepProfile p;
  Clock tsc{.stamp = kStamp};
  p.start(tsc());
  tsc.work(7);
  p.enter(StepRow::kIngress, tsc());
  tsc.work(3);
  const StepRow before = p.enter(StepRow::kPortReceive, tsc());
  tsc.work(150);
  p.enter(before, tsc());
  tsc.work(9);
  p.enter(StepRow::kParse, tsc());
  tsc.work(60);
  for (const auto kind : {PacketKind::kFirst, PacketKind::kAdd, PacketKind::kLast}) {
    p.enter(row_of(StepRow::kRegisters, PacketKind::kOther), tsc());
    tsc.work(30);
    p.enter_values(kind, tsc());
    tsc.work(kind == PacketKind::kLast ? values_of_last : 40);
    p.leave_values(kind, tsc());
    tsc.work(kind == PacketKind::kFirst ? 11 : 13);
  }
  p.enter(StepRow::kConclude, tsc());
  tsc.work(80);
  // A full outbox: the port sends in the middle of the replication.
  const StepRow outer = p.enter(StepRow::kPortTransmit, tsc());
  tsc.work(50);
  p.enter(outer, tsc());
  tsc.work(20);
  p.stop(tsc(), 3);
  return p;
}

const StepLine& line_of(const StepFigures& f, const std::string& key) {
  const auto at = std::ranges::find(f.lines, key, &StepLine::key);
  EXPECT_NE(at, f.lines.end()) << key;
  return at == f.lines.end() ? f.lines.front() : *at;
}

TEST(Step, TheProductsExecutionsHearOfNone) {
  static_assert(!HearsOfSteps<pipeline::Fused> && !HearsOfSteps<pipeline::Staged>);
  struct Listener {
    std::vector<pipeline::Step> heard;
    void enter(pipeline::Step step) { heard.push_back(step); }
  } listener;
  pipeline::enter_step(listener, pipeline::Step::kParse);
  pipeline::enter_step(listener, pipeline::Step::kHandle);
  EXPECT_EQ(listener.heard, (std::vector{pipeline::Step::kParse, pipeline::Step::kHandle}));
}

TEST(StepProfile, TimeIsOfTheStepThatWasEnteredLast) {
  StepProfile p;
  p.start(100);
  p.enter(StepRow::kParse, 110);
  p.enter(StepRow::kGiveBack, 140);
  p.stop(145, 1);
  EXPECT_EQ(p.cell(StepRow::kRest).cycles, 10U);
  EXPECT_EQ(p.cell(StepRow::kParse).cycles, 30U);
  EXPECT_EQ(p.cell(StepRow::kParse).stamps, 1U);
  EXPECT_EQ(p.cell(StepRow::kGiveBack).cycles, 5U);
  EXPECT_EQ(p.total().cycles, 45U);
  EXPECT_EQ(p.total().stamps, 3U);
}

TEST(StepProfile, StartForgetsWhatWasBefore) {
  StepProfile p = chunk_of_three();
  p.start(5);
  p.stop(6, 1);
  EXPECT_EQ(p.total().cycles, 1U);
  EXPECT_EQ(p.packets(), 1U);
}

TEST(StepProfile, RegistersAreOfTheKindThatTheValuesShow) {
  const StepProfile p = chunk_of_three();
  for (const auto kind : {PacketKind::kFirst, PacketKind::kAdd, PacketKind::kLast}) {
    EXPECT_EQ(p.packets(kind), 1U);
    EXPECT_EQ(p.cell(row_of(StepRow::kRegisters, kind)).cycles, 30 + kStamp);
  }
  EXPECT_EQ(p.cell(row_of(StepRow::kValues, PacketKind::kLast)).cycles, 90 + kStamp);
  EXPECT_EQ(p.cell(row_of(StepRow::kVerdict, PacketKind::kFirst)).cycles, 11 + kStamp);
  EXPECT_EQ(p.packets(PacketKind::kOther), 0U);
}

TEST(StepProfile, PacketsWithoutValuesAreCountedApart) {
  StepProfile p;
  p.start(0);
  p.enter(row_of(StepRow::kRegisters, PacketKind::kOther), 10);
  p.enter(StepRow::kGiveBack, 40);
  p.stop(50, 2);
  EXPECT_EQ(p.packets(PacketKind::kOther), 2U);
  const StepFigures f = step_figures({p}, 0, 25, 1e9);
  EXPECT_EQ(f.contributions, 2U);
  EXPECT_DOUBLE_EQ(line_of(f, "registers_other").each, 15);
}

TEST(StepProfile, TheMiddleHalfLeavesOutTheFastestAndTheSlowestQuarter) {
  std::vector<StepProfile> rounds;
  for (const std::uint64_t cycles : std::array<std::uint64_t, 8>{900, 10, 40, 20, 30, 5, 700, 50}) {
    rounds.emplace_back().start(0);
    rounds.back().stop(cycles, 1);
  }
  const StepProfile middle = middle_half(rounds);
  EXPECT_EQ(middle.total().cycles, 20U + 30 + 40 + 50);
  EXPECT_EQ(middle.packets(), 4U);
  EXPECT_EQ(middle_half({rounds.front()}).total().cycles, 900U);
}

TEST(StepProfile, AStampCostsWhatTheClockTakes) { EXPECT_DOUBLE_EQ(stamp_cycles(Clock{.stamp = 22}), 22); }

TEST(StepFigures, StampsAreTakenOffAndTheStepsAreTheWhole) {
  const StepFigures f = step_figures({chunk_of_three()}, kStamp, 250, 2e9);
  EXPECT_EQ(f.contributions, 3U);
  // What was worked above, and nothing of the clock's own time.
  EXPECT_DOUBLE_EQ(f.total * 3, 7 + 3 + 150 + 9 + 60 + 3 * 30 + 40 + 40 + 90 + 11 + 13 + 13 + 80 + 50 + 20);
  EXPECT_DOUBLE_EQ(f.with_stamps, f.total + f.stamps * kStamp);
  double sum = 0;
  for (const StepLine& l : f.lines) sum += l.share;
  EXPECT_NEAR(sum, f.total, 1e-9);
  EXPECT_DOUBLE_EQ(line_of(f, "port_receive").each, 50);  // 150 for three
  EXPECT_DOUBLE_EQ(line_of(f, "ingress").share * 3, 12);  // around the port's
  EXPECT_DOUBLE_EQ(line_of(f, "values_last").each, 90);   // of one packet
  EXPECT_DOUBLE_EQ(line_of(f, "values_last").share, 30);  // of each contribution
  EXPECT_DOUBLE_EQ(line_of(f, "conclude").each, 100);     // of one result, the port's time apart
  EXPECT_DOUBLE_EQ(line_of(f, "port_transmit").share * 3, 50);
}

TEST(StepFigures, ATableACsvAndAJsonSayTheSame) {
  const StepFigures f = step_figures({chunk_of_three(90), chunk_of_three(150)}, kStamp, 250, 2e9);
  EXPECT_DOUBLE_EQ(line_of(f, "values_last").each, 120);
  const std::string table = step_table(f);
  EXPECT_NE(table.find("values, last of its chunk"), std::string::npos);
  EXPECT_NE(table.find("loop without stamps: 250.0 cycles"), std::string::npos) << table;
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(table, '\n')), f.lines.size() + 3);
  const std::string csv = step_csv(f);
  EXPECT_NE(csv.find("\nvalues_last,2,120.00,40.00\n"), std::string::npos) << csv;
  const nlohmann::json json = step_json(f);
  EXPECT_EQ(json["steps"].size(), f.lines.size());
  EXPECT_EQ(json["cycles_unprofiled"], 250);
  EXPECT_EQ(json["cycles_of_a_stamp"], kStamp);
  double sum = 0;
  for (const auto& step : json["steps"]) sum += step["cycles_per_contribution"].get<double>();
  EXPECT_NEAR(sum, json["cycles"].get<double>(), 1e-9);
}

}  // namespace
}  // namespace tally::bench
