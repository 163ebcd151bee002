#include <cstdio>
#include <cstdlib>
#include "planner_support.h"
#include "routed_run.h"
using namespace tally;
using namespace tally::routes;
int main(int argc, char** argv) {
  const auto W = static_cast<planner::Index>(argc > 1 ? std::atoi(argv[1]) : 10);
  const bool unlike = argc > 2 && std::atoi(argv[2]) != 0;
  Conditions c;
  if (argc > 3) c.chunks = static_cast<std::uint32_t>(std::atoi(argv[3]));
  if (argc > 4) c.window = static_cast<std::uint32_t>(std::atoi(argv[4]));
  if (argc > 5) c.rto_floor = static_cast<TimeNs>(std::atoi(argv[5])) * kMicrosecond;
  int from = argc > 6 ? std::atoi(argv[6]) : 0;
  const auto instance = planner_test::fat_tree_instance(W, 1, unlike);
  planner::Ways ways(instance.topology);
  for (std::size_t s = static_cast<std::size_t>(from); s < kSchemes; ++s) {
    auto laid =
        lay(static_cast<Scheme>(s), {instance.topology, ways, planner::Routing::kChosen}, instance.job);
    if (!laid) {
      std::printf("%s: %s\n", kSchemeNames[s].data(), laid.error().text().c_str());
      continue;
    }
    auto m = run(instance.topology, ways, instance.job, *laid, c);
    if (!m) {
      std::printf("%s: %s\n", kSchemeNames[s].data(), m.error().text().c_str());
      continue;
    }
    std::printf(
        "%-26s best %.3f table %.3f measured %.3f (%.3f) time %.3f ms wrong %lu again %lu early %lu queries "
        "%lu flushes %lu denied %lu waited %.0f us fullest %.3f events %lu\n",
        kSchemeNames[s].data(), laid->at_best, laid->rate, m->rate, m->rate / laid->rate,
        double(m->time) / 1e6, m->wrong, m->again, m->early, m->queries, m->flushes, m->denied, m->waited,
        m->fullest, m->events);
    std::fflush(stdout);
  }
}
