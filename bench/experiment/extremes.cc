#include "extremes.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "chance.h"

namespace tally::experiment {
namespace {

constexpr std::array<RowIndex, 6> kReferences{
    kAtpHashRow, kAtpAnyFreeRow, kFcfsRow, kPreemptiveNoneRow, kPreemptiveSilenceRow, kPreemptiveDenialRow};

// By equal factors between the two.
double log_between(double least, double most, double unit) { return least * std::pow(most / least, unit); }

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

}  // namespace

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
