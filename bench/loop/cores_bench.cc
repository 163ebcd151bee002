// Two data cores beside one: performance.md, goal 5. One process, a pinned thread for each data core, the
// production data plane's turns, the in-memory port with a queue for each core; 256 elements, 8 members.

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cores_rig.h"
#include "dpdk/eal.h"
#include "harness.h"
#include "scratch.h"
#include "started.h"

namespace tally::bench {
namespace {

constexpr int kSkipped = 77;  // tools/run-bench: it cannot run here
constexpr int kRounds = 31;
constexpr std::uint16_t kElements = 256;
constexpr double kGoal = 0.90;  // efficiency from one core to two

std::vector<std::uint16_t> own_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<std::uint16_t> cpus;
  for (std::uint16_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

struct Row {
  std::string key;
  unsigned cores = 1;
};

// Raw add and the loop on one core and on both, then what is handed over, in turn.
nlohmann::json run(ResultsMode results, const std::string& directory) {
  using HandedOver = CoresOptions::HandedOver;
  std::vector<Row> rows;
  std::vector<Contender> contenders;
  std::vector<std::unique_ptr<RawAddOnCores>> raw;
  std::vector<std::unique_ptr<CoresRig>> rigs;
  const auto add_raw = [&](const char* name, unsigned cores) {
    raw.push_back(std::make_unique<RawAddOnCores>(cores, make_job({})));
    rows.push_back({"raw_add", cores});
    contenders.push_back({name, [add = raw.back().get()] { return undisturbed(*add); }});
  };
  const auto add = [&](const char* key, const char* name, std::uint8_t cores, HandedOver handed_over,
                       std::uint8_t active) {
    const std::string prefix = "cores" + std::to_string(rigs.size());
    const CoresOptions options{
        .cores = cores, .active = active, .handed_over = handed_over, .results = results};
    rigs.push_back(std::make_unique<CoresRig>(options, prefix, directory));
    rows.push_back({key, active});
    contenders.push_back({name, [rig = rigs.back().get()] { return undisturbed(*rig); }});
  };
  add_raw("raw add, one core", 1);
  add_raw("raw add, both cores at once", 2);
  add("own", "loop, one core", 1, HandedOver::kNone, 1);
  add("own", "loop, two cores, each its own frames", 2, HandedOver::kNone, 2);
  add("shard", "loop, the first of two, the other asleep", 2, HandedOver::kNone, 1);
  add("half", "loop, two cores, half handed over", 2, HandedOver::kHalf, 2);
  add("all", "loop, two cores, all handed over", 2, HandedOver::kAll, 2);

  const auto figures = measure(contenders, kRounds);
  const double raw_one = figures[0].median_ns;
  const double loop_one = figures[2].median_ns;
  const double loop_own = figures[3].median_ns;
  const bool multicast = results == ResultsMode::kMulticast;
  std::printf("\n%s results%*s %9s %9s %9s %9s %9s %9s\n", multicast ? "multicast" : "unicast", 25, "",
              "ns, core", "min", "max", "Mpps, all", "Gel/s", "efficiency");
  nlohmann::json out = nlohmann::json::array();
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const Figure& f = figures[i];
    const Row& row = rows[i];
    const double mpps = row.cores * 1e3 / f.median_ns;
    const double one = row.key == "raw_add" ? raw_one : loop_one;
    const double efficiency = one / f.median_ns;
    std::printf("%-41s %9.1f %9.1f %9.1f %9.2f %9.2f", f.name.c_str(), f.median_ns, f.min_ns, f.max_ns, mpps,
                mpps * kElements / 1e3);
    if (row.cores == 2 || row.key == "shard") std::printf("      %3.0f %%", 100 * efficiency);
    if (row.key == "own" && row.cores == 2)
      std::printf("  goal >= %.0f %%: %s", 100 * kGoal, efficiency >= kGoal ? "reached" : "NOT reached");
    if (row.key == "half" || row.key == "all")
      std::printf("  %+.1f ns for each handed over",
                  (f.median_ns - loop_own) / (row.key == "half" ? 0.5 : 1.0));
    std::printf("\n");
    out.push_back({{"key", row.key},
                   {"name", f.name},
                   {"results", multicast ? "multicast" : "unicast"},
                   {"cores", row.cores},
                   {"median_ns", f.median_ns},
                   {"min_ns", f.min_ns},
                   {"max_ns", f.max_ns},
                   {"efficiency", efficiency}});
  }
  return out;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  const auto cpus = own_cpus();
  if (cpus.size() < 2) {
    std::printf("tally_cores_bench: SKIPPED: needs two CPUs, this process may use one\n");
    return kSkipped;
  }
  nlohmann::json results{{"environment", environment()}};
  print_environment();
  constexpr std::uint64_t kHugeMemory = std::uint64_t{240} << 20;
  const bool huge = tally::dpdk::free_hugepage_bytes() >= kHugeMemory;
  const tally::dpdk::EalOptions options{.program = argv[0],
                                        .instance = "cores-" + std::to_string(getpid()),
                                        .cores = {cpus[0], cpus[1]},
                                        .memory_bytes = huge ? kHugeMemory : 2 * kHugeMemory};
  const tally::dpdk::Eal eal = started(tally::dpdk::Eal::start(options, print_warnings));
  static const Scratch scratch;  // std::exit() removes it too
  std::printf(
      "\n%u elements, 8 members, a window of %u for each core, kernels %s, %s, a ring of 4 MiB for each "
      "core,\n%d rounds interleaved; ns of CPU time of one core for each contribution that its queue "
      "received\n",
      kElements, kBenchWindow, std::string(tally::kernels::best_kernels().name).c_str(),
      eal.hugepages() ? "hugepages" : "NO HUGEPAGES: every frame costs a walk of the page table", kRounds);
  results["cores"] = {{"cpus", {cpus[0], cpus[1]}},
                      {"hugepages", eal.hugepages()},
                      {"rounds", kRounds},
                      {"goal_efficiency", kGoal}};
  for (const auto mode : {tally::ResultsMode::kUnicast, tally::ResultsMode::kMulticast})
    for (auto& row : run(mode, scratch.path())) results["cores"]["rows"].push_back(std::move(row));
  write_json(file, results);
  return 0;
}
