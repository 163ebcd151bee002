#include "rounds_sweep.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <random>
#include <tuple>
#include <utility>

#include "comparison.h"

namespace tally::rounds {
namespace {

constexpr std::uint32_t kLeastFill = 2;  // percent: rows that a batch has not travel as a bit

// A hot set, and what ranks said when they agreed on it.
struct Learnt {
  hot::KeySet set;
  bench::HotWorkers::Agreement agreement;
};
using Lesson = std::tuple<double, std::uint32_t, std::uint32_t, std::uint32_t>;  // law, keys, workers, hot

Lesson lesson_of(const Cell& cell) {
  const bench::Workload& load = cell.conditions.load;
  return {load.exponent, load.keys, load.workers, cell.hot};
}

bool learns(Kept kept) { return kept == Kept::kAgreed || kept == Kept::kWrittenBack; }

Learnt learn(const Cell& cell) {
  bench::HotWorkers workers({.load = cell.conditions.load,
                             .limits = {cell.hot, kLeastFill},
                             .every = kEvery,
                             .seed = cell.conditions.seed + 1'000});
  for (std::uint32_t round = 0; round <= kEvery; ++round) workers.count_a_round();
  return {workers.set(), workers.agreement()};
}

hot::KeySet guessed(const Cell& cell) {
  std::vector<std::uint32_t> all(cell.conditions.load.keys);
  for (std::uint32_t k = 0; k < all.size(); ++k) all[k] = k;
  std::vector<std::uint32_t> some;
  std::mt19937_64 random(cell.conditions.seed);
  std::sample(all.begin(), all.end(), std::back_inserter(some), cell.hot, random);
  std::vector<hot::Key> keys;
  for (const std::uint32_t k : some) keys.push_back(bench::key_of(k));
  return {1, std::move(keys)};
}

hot::KeySet best(const Cell& cell) {
  std::vector<hot::Key> keys;
  for (std::uint32_t k = 0; k < cell.hot; ++k) keys.push_back(bench::key_of(k));
  return {1, std::move(keys)};
}

Done run_one(const Cell& cell, const Learnt* learnt) {
  const hot::KeySet set = learns(cell.kept)            ? learnt->set
                          : cell.kept == Kept::kRandom ? guessed(cell)
                          : cell.kept == Kept::kOracle ? best(cell)
                                                       : hot::KeySet();
  const auto measured = run(cell.conditions, set, learns(cell.kept) ? &learnt->agreement : nullptr);
  const bench::Workload& load = cell.conditions.load;
  if (!measured) {
    std::fprintf(stderr, "tally_hot_rounds: %u workers, Zipf %.2f: %s\n", load.workers, load.exponent,
                 measured.error().text().c_str());
    std::exit(1);
  }
  return {cell, set.size(), bench::expected(load, cell.hot), *measured};
}

class Cells {
 public:
  explicit Cells(bool quick) : quick_(quick) {}

  void add(Table table, Bound bound, double law, std::uint32_t workers, std::uint32_t width, Kept kept,
           std::uint32_t hot = 30'000, std::uint32_t servers = 1) {
    Cell cell{table, bound, kept, hot, {}};
    bench::Workload load{1'000'000, law, 13'312, workers};
    if (quick_) {
      load = {100'000, law, 1'331, workers};
      cell.hot = hot / 10;
    }
    cell.conditions = conditions_of(bound, load, width);
    cell.conditions.servers = servers;
    cell.conditions.written_back = kept == Kept::kWrittenBack;
    all_.push_back(cell);
  }
  [[nodiscard]] std::vector<Cell> take() { return std::move(all_); }

 private:
  bool quick_;
  std::vector<Cell> all_;
};

}  // namespace

double Done::per_second() const {
  const double agreements = static_cast<double>(measured.agreement) * measured.rounds / kEvery;
  return measured.rounds / ((static_cast<double>(measured.time) + agreements) / 1e9);
}

Conditions conditions_of(Bound bound, const bench::Workload& load, std::uint32_t width) {
  Conditions conditions{.load = load, .width = width};
  conditions.gbps = bound == Bound::kThreads ? 25 : 10;
  conditions.threads = bound == Bound::kThreads ? 1 : 16;
  return conditions;
}

std::vector<Cell> all_cells(bool quick) {
  Cells cells(quick);
  constexpr std::array kBounds{Bound::kThreads, Bound::kLinks};
  // The longest first, so that no thread has one of them left at the end.
  for (const std::uint32_t workers : {32U, 8U})
    for (const std::uint32_t hot : {100'000U, 10'000U, 3'000U, 1'000U})
      for (const Bound bound : kBounds) {
        if (workers == 32 && hot != 100'000) continue;
        if (quick && (workers == 32 || hot > 10'000)) continue;
        cells.add(Table::kSizes, bound, 1.2, workers, 16, Kept::kAgreed, hot);
      }
  for (const std::uint32_t workers : {32U, 16U, 8U}) {
    if (quick && workers == 16) continue;
    for (const std::uint32_t width : {16U, 1U})
      for (const double law : {0.6, 1.2})
        for (const Bound bound : kBounds)
          for (const Kept kept :
               {Kept::kNone, Kept::kAgreed, Kept::kWrittenBack, Kept::kRandom, Kept::kOracle}) {
            const bool of_ours = kept != Kept::kRandom && kept != Kept::kOracle;
            if (of_ours || bound == Bound::kThreads)
              cells.add(Table::kHeadline, bound, law, workers, width, kept);
          }
  }
  for (const Kept kept : {Kept::kNone, Kept::kAgreed}) {
    for (const std::uint32_t width : {16U, 1U})
      for (const std::uint32_t servers : {2U, 4U, 8U})
        for (const Bound bound : kBounds)
          cells.add(Table::kServers, bound, 1.2, quick ? 8 : 32, width, kept, 30'000, servers);
    for (const double law : {0.9, 1.05})
      for (const std::uint32_t workers : {32U, 8U})
        if (!quick) cells.add(Table::kLaws, Bound::kThreads, law, workers, 16, kept);
  }
  return cells.take();
}

std::vector<Done> run_all(const std::vector<Cell>& cells, unsigned threads) {
  std::map<Lesson, Learnt> learnt;
  std::vector<std::pair<const Cell*, Learnt*>> lessons;
  for (const Cell& cell : cells) {
    if (!learns(cell.kept)) continue;
    const auto [at, is_new] = learnt.try_emplace(lesson_of(cell));
    if (is_new) lessons.emplace_back(&cell, &at->second);
  }
  bench::on_threads(threads, lessons.size(),
                    [&](std::size_t i) { *lessons[i].second = learn(*lessons[i].first); });
  std::vector<Done> done(cells.size());
  std::atomic<std::size_t> so_far = 0;
  bench::on_threads(threads, cells.size(), [&](std::size_t i) {
    const Cell& cell = cells[i];
    done[i] = run_one(cell, learns(cell.kept) ? &learnt.at(lesson_of(cell)) : nullptr);
    std::fprintf(stderr, "%zu of %zu: %u workers, Zipf %.2f, width %u, %s, %s: %.1f rounds/s\n", ++so_far,
                 cells.size(), cell.conditions.load.workers, cell.conditions.load.exponent,
                 cell.conditions.width, kBoundNames[static_cast<std::size_t>(cell.bound)].data(),
                 kKeptNames[static_cast<std::size_t>(cell.kept)].data(), done[i].per_second());
  });
  return done;
}

}  // namespace tally::rounds
