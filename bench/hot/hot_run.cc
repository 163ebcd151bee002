#include "hot_run.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tally::bench {
namespace {

// A round under the set as it is; adds to `traffic`.
void measure_a_round(HotWorkers& workers, std::uint32_t world, Traffic& traffic) {
  std::vector<bool> had(workers.set().size());
  for (std::uint32_t worker = 0; worker < world; ++worker)
    for (const std::uint32_t key : workers.draw()) {
      const auto id = workers.set().id_of(key_of(key));
      traffic.pushed += 1;
      traffic.cold += id ? 0 : 1;
      if (!id || had[*id]) continue;
      had[*id] = true;
      traffic.merged += 1;
    }
}

double gain(double share, std::uint32_t workers) {
  return workers * share + std::expm1(workers * std::log1p(-std::min(share, 1 - 1e-15)));
}

double gain_kept(const HotRunOptions& options, const HotWorkers& workers) {
  const std::uint32_t oracle =
      size_of_fill(options.load, options.limits.least_fill / 100.0, options.limits.most);
  double kept = 0;
  double best = 0;
  for (std::uint32_t k = 0; k < options.load.keys; ++k) {
    const double g = gain(workers.zipf().share(k, options.load.lookups), options.load.workers);
    if (k < oracle) best += g;
    if (workers.set().has(key_of(k))) kept += g;
  }
  return best > 0 ? kept / best : 1;
}

}  // namespace

HotRun hot_run(const HotRunOptions& options) {
  HotWorkers workers(options);
  hot::KeySet before;
  for (std::uint32_t i = 0; i < options.sampled; ++i) {
    const hot::KeySet now = workers.set();
    workers.count_a_round();
    if (workers.set().number() != now.number()) before = now;
  }
  HotRun run{.size = workers.set().size()};
  for (const hot::Key key : workers.set().keys()) run.newcomers += before.has(key) ? 0 : 1;
  for (std::uint32_t i = 0; i < options.measured; ++i)
    measure_a_round(workers, options.load.workers, run.traffic);
  run.gain_kept = gain_kept(options, workers);
  const HotWorkers::Agreement& agreement = workers.agreement();
  if (!agreement.names.empty())
    run.agreement_bytes =
        4.0 * static_cast<double>(agreement.names.front().size() + agreement.weights.front().size());
  run.counting_ns = workers.counting_ns();
  return run;
}

}  // namespace tally::bench
