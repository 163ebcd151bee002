#include "sweep.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <thread>

#include "chance.h"
#include "job_plan.h"
#include "training_run.h"

namespace tally::experiment {
namespace {

constexpr std::array<ServerState, 3> kServers{{{"1/8", 1, 1}, {"1/16", 1, 2}, {"1", 8, 1}}};
constexpr const ServerState& kEighth = kServers[0];
constexpr const ServerState& kSixteenth = kServers[1];
constexpr const ServerState& kOne = kServers[2];

std::vector<Place> places_of(bool quick) {
  std::vector<Place> places;
  const auto add = [&](const ServerState& server, std::initializer_list<double> percents) {
    for (const double percent : percents) places.push_back({server, percent / 100});
  };
  if (quick) {
    add(kEighth, {5, 10});
    add(kOne, {10});
    return places;
  }
  add(kEighth, {1, 2, 5, 10, 25, 50, 100});
  add(kSixteenth, {2, 5, 10, 25, 100});
  add(kOne, {2, 10, 100});
  return places;
}

Setting setting_of(const Setting& base, const Place& place, const Row& row, std::uint64_t seed) {
  Setting s = base;
  s.seed = seed;
  s.slots_share = place.slots_share;
  s.server_rate = place.server.rate;
  s.jobs_of_server = place.server.jobs_of_server;
  return of_row(s, row);
}

double percentile_99(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(values.size())));
  return values[std::min(values.size(), at) - 1];
}

Cell summary_of(const std::vector<const Outcomes*>& runs) {
  Cell cell;
  std::vector<double> jobs;
  const auto n = static_cast<double>(runs.size());
  for (const Outcomes* run : runs) {
    cell.times.push_back(run->mean_time());
    for (const JobOutcome& job : run->jobs) jobs.push_back(job.time);
    cell.mean_time += run->mean_time() / n;
    cell.aggregation += run->aggregation() / n;
    cell.utilisation += run->utilisation / n;
    cell.useful += run->useful / n;
    cell.evictions += static_cast<double>(run->evicted) / n;
    cell.server_gigabytes += static_cast<double>(run->server_bytes) * 1e-9 / n;
    cell.retransmissions +=
        static_cast<double>(run->retransmissions) / static_cast<double>(run->contributions) / n;
    cell.wrong += run->wrong;
    cell.queue_drops += run->queue_drops;
  }
  cell.p99_time = percentile_99(std::move(jobs));
  return cell;
}

}  // namespace

std::span<const ServerState> all_servers() { return kServers; }

Setting of_row(Setting setting, const Row& row) {
  setting.row = row;
  if (row.server_only || gets_no_pool(setting)) {
    setting.row = row_at(kNoInaRow);
    setting.slots_share = 0;
  }
  return setting;
}

std::vector<Outcomes> run_all(const std::vector<Setting>& settings, unsigned threads) {
  std::vector<Outcomes> outcomes(settings.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < settings.size(); i = next++) {
      outcomes[i] = run(settings[i]);
      if (i % 100 == 0) std::fprintf(stderr, "\r%zu of %zu runs", i, settings.size());
    }
  };
  std::vector<std::thread> pool;
  for (unsigned i = 1; i < threads; ++i) pool.emplace_back(work);
  work();
  for (auto& thread : pool) thread.join();
  std::fprintf(stderr, "\r%zu runs          \n", settings.size());
  return outcomes;
}

Setting base_setting(const SweepOptions& options) {
  Setting s;
  if (options.quick) {
    s.scale = 512;
    s.iterations = 6;
  }
  return s;
}

double Grid::speed_up(std::size_t place, RowIndex row, RowIndex over) const {
  const Cell& slow = at(place, over);
  const Cell& fast = at(place, row);
  double sum = 0;
  for (std::size_t i = 0; i < fast.times.size(); ++i) sum += slow.times[i] / fast.times[i];
  return sum / static_cast<double>(fast.times.size());
}

Grid run_grid(const SweepOptions& options) {
  Grid grid;
  grid.places = places_of(options.quick);
  for (std::uint64_t seed = 201; seed <= (options.quick ? 202U : 208U); ++seed) grid.seeds.push_back(seed);
  const Setting base = base_setting(options);

  std::vector<Setting> settings;
  std::map<std::string, std::size_t> known;
  std::vector<std::size_t> index;  // of the setting of each (place, row, seed)
  for (const Place& place : grid.places) {
    for (const Row& row : all_rows()) {
      for (const std::uint64_t seed : grid.seeds) {
        const Setting s = setting_of(base, place, row, seed);
        const auto key = std::string(s.row.name) + "|" + std::string(place.server.name) + "|" +
                         std::to_string(s.slots_share) + "|" + std::to_string(seed);
        const auto [at, first] = known.try_emplace(key, settings.size());
        if (first) settings.push_back(s);
        index.push_back(at->second);
      }
    }
  }
  const std::vector<Outcomes> outcomes = run_all(settings, options.threads);
  auto at = index.begin();
  for (std::size_t place = 0; place < grid.places.size(); ++place) {
    auto& rows = grid.cells.emplace_back();
    for (std::size_t row = 0; row < kRowCount; ++row) {
      std::vector<const Outcomes*> runs;
      for (std::size_t seed = 0; seed < grid.seeds.size(); ++seed) runs.push_back(&outcomes[*at++]);
      rows.push_back(summary_of(runs));
    }
  }
  return grid;
}

namespace {

constexpr std::array<RowIndex, 6> kReferences{
    kAtpHashRow, kAtpAnyFreeRow, kFcfsRow, kPreemptiveNoneRow, kPreemptiveSilenceRow, kPreemptiveDenialRow};

// By equal factors between the two.
double log_between(double least, double most, double unit) { return least * std::pow(most / least, unit); }

}  // namespace

Setting regime_of(const SweepOptions& options, std::uint64_t number) {
  const Chance chance(number);
  const auto unit = [&](std::uint64_t what) { return chance.unit(Purpose::kRegime, what); };
  Setting s = base_setting(options);
  s.seed = number;
  s.scale = options.quick ? 512 : 128;
  s.mix = static_cast<Mix>(static_cast<int>(3 * unit(1)));
  s.jobs = static_cast<std::uint16_t>(2 + 11 * unit(2));
  s.world = static_cast<std::uint16_t>(2 << static_cast<int>(4 * unit(3)));
  s.slots_share = log_between(0.01, 1, unit(4));
  s.server_rate = log_between(0.5, 2.0 * s.world, unit(5));
  s.jobs_of_server = unit(6) < 0.5 ? 1 : 2;
  s.window = 32U << static_cast<int>(3 * unit(7));
  s.delay = log_between(2, 32, unit(8));
  s.jitter = s.delay * (unit(9) < 0.5 ? 0.5 : 2);
  s.skew = log_between(0.01, 0.2, unit(10));
  s.stall = log_between(0.00002, 0.0005, unit(11));
  s.loss = unit(12) < 0.5 ? 0 : log_between(0.00001, 0.001, unit(13));
  return s;
}

Losses run_losses(const SweepOptions& options) {
  Losses result{
      .rows = {kAtpHashRow, kAtpEcnRow, kAtpAnyFreeRow, kFcfsRow, kPreemptiveSilenceRow, kSharedRow},
      .losses = {0, 0.0001, 0.001, 0.01},
      .cells = {}};
  const std::vector<std::uint64_t> seeds =
      options.quick ? std::vector<std::uint64_t>{401} : std::vector<std::uint64_t>{401, 402};
  std::vector<Setting> settings;
  for (const RowIndex row : result.rows) {
    for (const double loss : result.losses) {
      for (const std::uint64_t seed : seeds) {
        Setting s = setting_of(base_setting(options), {kEighth, 0.1}, row_at(row), seed);
        s.loss = loss;
        settings.push_back(s);
      }
    }
  }
  const auto outcomes = run_all(settings, options.threads);
  auto at = outcomes.begin();
  for (std::size_t row = 0; row < result.rows.size(); ++row) {
    auto& cells = result.cells.emplace_back();
    for (std::size_t loss = 0; loss < result.losses.size(); ++loss) {
      std::vector<const Outcomes*> runs;
      for (std::size_t seed = 0; seed < seeds.size(); ++seed) runs.push_back(&*at++);
      cells.push_back(summary_of(runs));
    }
  }
  return result;
}

std::vector<Regime> run_regimes(const SweepOptions& options) {
  const std::uint64_t count = options.quick ? 6 : 60;
  std::vector<Regime> regimes;
  std::vector<Setting> settings;
  for (std::uint64_t i = 0; i < count; ++i) {
    Setting s = regime_of(options, 3001 + i);
    s.row = row_at(kSharedRow);
    regimes.push_back({.setting = s});
    settings.push_back(s);
    for (const RowIndex row : kReferences) {
      s.row = row_at(row);
      settings.push_back(s);
    }
  }
  const auto outcomes = run_all(settings, options.threads);
  auto at = outcomes.begin();
  for (Regime& regime : regimes) {
    const double ours = at->mean_time();
    regime.wrong = at++->wrong;
    double best = 0;
    for (const RowIndex row : kReferences) {
      regime.wrong += at->wrong;
      const double time = at++->mean_time();
      if (best != 0 && time >= best) continue;
      best = time;
      regime.best = row_at(row).name;
    }
    regime.ratio = best / ours;
  }
  std::stable_sort(regimes.begin(), regimes.end(),
                   [](const Regime& a, const Regime& b) { return a.ratio < b.ratio; });
  return regimes;
}

std::vector<Urgent> run_urgent(const SweepOptions& options) {
  constexpr std::uint64_t kSeeds = 4;
  std::vector<Urgent> results;
  for (const double share : {0.02, 0.05, 0.1, 0.25}) results.push_back({.slots_share = share});
  std::vector<Setting> settings;
  for (const Urgent& urgent : results) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      Setting s = base_setting(options);
      s.row = row_at(kSharedRow);
      s.seed = 301 + seed;
      s.mix = Mix::kOneUrgent;
      s.jobs = 9;
      s.slots_share = urgent.slots_share;
      settings.push_back(s);
      s.only_job_0 = true;
      settings.push_back(s);
    }
  }
  const auto outcomes = run_all(settings, options.threads);
  auto at = outcomes.begin();
  for (Urgent& urgent : results) {
    for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
      urgent.wrong += at->wrong;
      urgent.beside += at++->jobs[0].time / kSeeds;
      urgent.wrong += at->wrong;
      urgent.alone += at++->jobs[0].time / kSeeds;
    }
  }
  return results;
}

}  // namespace tally::experiment
