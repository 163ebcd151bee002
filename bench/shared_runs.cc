#include "shared_runs.h"

#include <cstdio>
#include <string>
#include <vector>

#include "harness.h"
#include "shared_packets.h"

namespace tally::bench {
namespace {

using Timed = SharedPackets::Timed;

constexpr int kRounds = 15;
constexpr double kSwapGoal = 2.0;  // at most so many times add

// One kind of packet, as measure() wants it.
struct Kind {
  SharedPackets& packets;
  Timed timed;
  Round round() { return packets.round(timed); }
};

struct Row {
  std::string key;  // for programs
  std::string name;
  std::string than;  // key of the row it is compared with
  double goal = 0;   // at most so many times that; 0: none
};

// In the order of the table.
const std::vector<Row> kRows{
    {"add_kernel", "add kernel", "add_kernel"},
    {"swap_kernel", "swap kernel", "add_kernel", kSwapGoal},
    {"pool_first", "pool, first of a chunk", "pool_add"},
    {"pool_add", "pool, add", "pool_add"},
    {"shared_add", "shared, add", "pool_add"},
    {"shared_claim", "shared, first of a chunk, claims", "pool_add"},
    {"shared_swap", "shared, first of a chunk, swaps", "pool_add", kSwapGoal},
    {"shared_swap_merge", "the same, and the server's merge", "pool_add"},
};

double ns_of(const std::string& key, const std::vector<Figure>& figures) {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (kRows[i].key == key) return figures[i].median_ns;
  return 0;
}

nlohmann::json print(const Row& row, const Figure& f, const std::vector<Figure>& figures) {
  const double ratio = f.median_ns / ns_of(row.than, figures);
  std::printf("%-34s %8.1f %8.1f %8.1f %9.2f", row.name.c_str(), f.median_ns, f.min_ns, f.max_ns, ratio);
  if (row.goal > 0)
    std::printf("  goal <= %.1f: %s", row.goal, ratio <= row.goal ? "reached" : "NOT reached");
  std::printf("\n");
  return {{"key", row.key},     {"name", row.name},          {"median_ns", f.median_ns}, {"min_ns", f.min_ns},
          {"max_ns", f.max_ns}, {"compared_with", row.than}, {"ratio", ratio},           {"goal", row.goal}};
}

}  // namespace

nlohmann::json run_shared(const kernels::Kernels& kernels) {
  SharedPackets pool(Discipline::kPool, kernels);
  SharedPackets shared(Discipline::kShared, kernels);
  std::vector<Kind> kinds{
      {shared, Timed::kAddKernel}, {shared, Timed::kSwapKernel},   {pool, Timed::kFirst},
      {pool, Timed::kAdd},         {shared, Timed::kAdd},          {shared, Timed::kFirst},
      {shared, Timed::kSwap},      {shared, Timed::kSwapAndMerge},
  };
  std::vector<Contender> contenders;
  for (std::size_t i = 0; i < kinds.size(); ++i)
    contenders.push_back({kRows[i].name, [kind = &kinds[i]] { return undisturbed(*kind); }});
  const auto figures = measure(contenders, kRounds);

  std::printf(
      "\nshared slots: %u elements, %u members, %u entries; entries and frames in L2, port's checksum "
      "verdict\n",
      SharedPackets::kElements, SharedPackets::kWorld, SharedPackets::kChunks);
  std::printf("%-34s %8s %8s %8s %9s\n", "", "ns", "min", "max", "x add");
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < figures.size(); ++i) rows.push_back(print(kRows[i], figures[i], figures));
  return {{"elements", SharedPackets::kElements},
          {"members", SharedPackets::kWorld},
          {"entries", SharedPackets::kChunks},
          {"rows", rows}};
}

}  // namespace tally::bench
