// Rounds of a sparse model with hot keys in the box (bench/rounds): what is reckoned of them, and that sums are exact.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "hot_workers.h"
#include "lines.h"
#include "rounds_report.h"

namespace tally::rounds {
namespace {

// A tenth of the keys of the recorded runs, of the lookups and of the hot keys.
Cell small(double law, Kept kept, Bound bound = Bound::kThreads) {
  Cell cell{.bound = bound, .kept = kept, .hot = 3'000};
  cell.conditions = conditions_of(bound, {100'000, law, 1'331, 8}, 1);
  cell.conditions.written_back = kept == Kept::kWrittenBack;
  return cell;
}

hot::KeySet most_frequent(std::uint32_t keys) {
  std::vector<hot::Key> hot;
  for (std::uint32_t k = 0; k < keys; ++k) hot.push_back(bench::key_of(k));
  return {1, hot};
}

TEST(HotRounds, a_line_takes_one_load_after_the_other_and_hands_it_on_whole) {
  sim::Schedule time;
  bench::Lines lines(time, 2, 5);
  std::vector<std::pair<std::uint32_t, TimeNs>> arrived;
  const auto as = [&](std::uint32_t load) {
    return [&arrived, &time, load] { arrived.emplace_back(load, time.now()); };
  };
  const std::array way{bench::Lines::Hop{0, 100}, bench::Lines::Hop{1, 30}};
  EXPECT_EQ(lines.send(way, as(7)), 100U);
  EXPECT_EQ(lines.send(way, as(8)), 200U);
  while (time.step(kSecond)) {
  }
  EXPECT_EQ(arrived, (std::vector<std::pair<std::uint32_t, TimeNs>>{{7, 140}, {8, 240}}));
  EXPECT_EQ(lines.busy(0), 200);
  EXPECT_EQ(lines.busy(1), 60);
  EXPECT_EQ(lines.busiest(0, 2), 200);
}

TEST(HotRounds, a_request_is_cut_into_segments_with_their_headers) {
  EXPECT_EQ(Push{}.bytes(16), 64U);
  EXPECT_EQ((Push{.pairs = 10}.bytes(16)), 64U + 10 * 72);
  EXPECT_EQ(segments_of(64).count, 1U);
  EXPECT_EQ(segments_of(64).wire_bytes, 64 + 90);
  EXPECT_EQ(segments_of(1'448).count, 1U);
  EXPECT_EQ(segments_of(1'449).count, 2U);
}

TEST(HotRounds, every_key_of_a_batch_is_a_hot_row_or_a_pair_at_one_server) {
  Conditions conditions = small(1.2, Kept::kWrittenBack).conditions;
  conditions.servers = 3;
  conditions.width = 2;
  const hot::KeySet set = most_frequent(500);
  RoundPlan plan(conditions, set);
  bench::Batches batches(conditions.load, conditions.seed);
  const Round round = plan.next();
  std::vector<float> sums(set.size() * conditions.width);
  std::size_t back = 0;
  for (std::uint32_t w = 0; w < conditions.load.workers; ++w) {
    const Share& share = round.workers[w];
    std::size_t pairs = 0;
    for (const Push& push : share.cold) {
      EXPECT_GT(push.pairs, 0U);
      pairs += push.pairs;
    }
    for (const Push& push : share.back) back += push.pairs;
    EXPECT_EQ(share.ids.size() + pairs, batches.draw().size());
    for (const std::uint32_t id : share.ids)
      for (std::uint32_t j = 0; j < 2; ++j) sums[id * 2 + j] += value_of(w, id, j);
  }
  EXPECT_EQ(round.sums, sums);
  const auto had =
      std::count_if(round.ranks.begin(), round.ranks.end(), [](auto ranks) { return ranks != 0; });
  EXPECT_EQ(round.traffic.merged, static_cast<double>(had));
  EXPECT_EQ(back, static_cast<std::size_t>(had)) << "each sum is written back once";
}

TEST(HotRounds, without_hot_keys_servers_take_what_their_threads_take) {
  for (const std::uint32_t servers : {1U, 4U}) {
    Cell cell = small(1.2, Kept::kNone);
    cell.conditions.servers = servers;
    const auto done = run_all({cell}, 1);
    const Serving& costs = serving(1.2, 1);
    const bench::Traffic& t = done[0].measured.traffic;
    const double each = t.pushed / done[0].measured.rounds / servers;
    EXPECT_EQ(t.pushed, t.cold);
    EXPECT_LT(done[0].per_second(), 1e9 / (each * std::min(costs.near_ns, costs.far_ns)));
    EXPECT_GT(done[0].per_second(), 0.8e9 / (each * std::max(costs.near_ns, costs.far_ns)));
  }
}

TEST(HotRounds, hot_keys_are_worth_what_the_table_says) {
  std::vector<Cell> cells;
  for (const Bound bound : {Bound::kThreads, Bound::kLinks})
    for (const double law : {0.6, 1.2})
      for (const Kept kept : {Kept::kNone, Kept::kAgreed, Kept::kWrittenBack, Kept::kRandom, Kept::kOracle})
        cells.push_back(small(law, kept, bound));
  const std::vector<Done> done = run_all(cells, 1);
  EXPECT_EQ(wrong_in(done), 0U);
  for (const Done& run : done) {
    const double gain = gain_of(done, run);
    const bool threads = run.cell.bound == Bound::kThreads;
    EXPECT_GE(gain, run.cell.conditions.load.exponent > 1 ? 1 : 0.98);
    if (run.cell.kept == Kept::kAgreed || run.cell.kept == Kept::kOracle) {
      EXPECT_NEAR(run.measured.traffic.pairs() / run.reckoned.pairs(), 1, 0.02);
      EXPECT_GE(gain, run.cell.conditions.load.exponent > 1 ? 1.5 : 1.1);
    }
    // Servers spend what is left on the pairs that are left.
    if (run.cell.kept == Kept::kWrittenBack && threads) {
      EXPECT_NEAR(gain / run.measured.traffic.pairs(), 1, 0.1);
    }
    if (run.cell.kept == Kept::kRandom) {
      EXPECT_LT(gain, 1.1);
    }
  }
  const auto json = nlohmann::json::parse(json_of(done));
  EXPECT_EQ(json["tally_hot_rounds"]["runs"].size(), done.size());
}

// Rows that are wide, and several servers: the sums of rows that some have, in many packets, at box and workers.
TEST(HotRounds, sums_of_wide_rows_are_exact_beside_the_pushes) {
  Cell cell = small(1.2, Kept::kAgreed, Bound::kLinks);
  cell.conditions.width = 16;
  cell.conditions.servers = 3;
  const auto done = run_all({cell}, 1);
  EXPECT_EQ(done[0].measured.wrong, 0U);
  EXPECT_EQ(done[0].measured.rounds, cell.conditions.rounds);
  EXPECT_GT(done[0].measured.agreement, 0U);
}

}  // namespace
}  // namespace tally::rounds
