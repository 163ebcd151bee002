// Pipeline alone (parse to verdict, no I/O) against the raw add kernel over the same entries and frames, in
// one run: performance.md, Goal 2. 256 elements, 8 members, window 256, frames from a ring of at least 4 MiB.
// Then with entries that are not in a cache, and with the AVX2 kernels where there are better ones.

#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "contributions.h"
#include "harness.h"
#include "pipeline/fused.h"
#include "pipeline/staged.h"
#include "pipeline_contenders.h"
#include "shared_packets.h"

namespace tally::bench {
namespace {

constexpr int kRounds = 15;

struct Row {
  Figure figure;
  double goal = 0;  // share of raw add, 0 = none
};

void print_row(const Row& row, double raw_ns, std::uint16_t elements) {
  const auto& f = row.figure;
  std::printf("%-34s %8.1f %8.1f %8.1f %9.2f %8.2f", f.name.c_str(), f.median_ns, f.min_ns, f.max_ns,
              1e3 / f.median_ns, elements / f.median_ns);
  std::printf(" %7.1f %%", 100 * raw_ns / f.median_ns);
  if (row.goal > 0)
    std::printf("  goal >= %.0f %%: %s", 100 * row.goal,
                raw_ns / f.median_ns >= row.goal ? "reached" : "NOT reached");
  std::printf("\n");
}

nlohmann::json run(std::uint16_t elements, const kernels::Kernels& kernels) {
  const jobs::NativeJob job = make_job({.elements = elements});
  RawAdd raw(job, job_box(), kernels);
  PipelineAlone<pipeline::Fused> port(job, job_box(), kernels, true);
  PipelineAlone<pipeline::Fused> software(job, job_box(), kernels, false);
  PipelineAlone<pipeline::Staged> staged(job, job_box(), kernels, true);
  std::vector<Contender> contenders{
      {"raw add", [&] { return undisturbed(raw); }},
      {"fused, port's checksum verdict", [&] { return undisturbed(port); }},
      {"fused, software verification", [&] { return undisturbed(software); }},
      {"staged, port's checksum verdict", [&] { return undisturbed(staged); }},
  };
  const auto figures = measure(contenders, kRounds);
  const double raw_ns = figures.front().median_ns;
  std::printf("\n%u elements, %u members, window %u, kernels %s, ring of %.1f MiB, %d rounds interleaved\n",
              elements, job.world, kBenchWindow, std::string(kernels.name).c_str(),
              static_cast<double>(raw.ring_bytes()) / (1 << 20), kRounds);
  std::printf("%-34s %8s %8s %8s %9s %8s %9s\n", "", "ns", "min", "max", "Mpps", "Gel/s", "of raw");
  nlohmann::json rows = nlohmann::json::array();
  for (std::size_t i = 0; i < figures.size(); ++i) {
    const double goal = elements != 256 ? 0 : i == 1 ? 0.65 : i == 2 ? 0.40 : 0;
    print_row({figures[i], goal}, raw_ns, elements);
    rows.push_back({{"name", figures[i].name},
                    {"median_ns", figures[i].median_ns},
                    {"min_ns", figures[i].min_ns},
                    {"max_ns", figures[i].max_ns},
                    {"share_of_raw_add", raw_ns / figures[i].median_ns}});
  }
  if (elements == 256) {
    const double mpps = 1e3 / figures[3].median_ns;
    std::printf("staged execution: %.2f M packets/s, goal >= 1: %s\n", mpps,
                mpps >= 1 ? "reached" : "NOT reached");
  }
  return {{"elements", elements},
          {"members", job.world},
          {"window", kBenchWindow},
          {"kernels", kernels.name},
          {"rows", rows}};
}

// Entries that are begun and not finished, and with them every entry that a packet meets, are more than L2
// holds, or L3: many jobs whose packets come in turn; members far apart.
nlohmann::json run_cold(const kernels::Kernels& kernels) {
  struct Order {
    const char* key;
    const char* name;
    std::uint16_t jobs;
    std::uint32_t window;
    std::uint32_t skew;
  };
  constexpr std::array<Order, 2> kOrders{
      {{"jobs_in_turn", "1,024 jobs, packets in turn", 1024, 64, kSkewChunks},
       {"members_apart", "members 512 chunks apart", 1, 16'384, 512}}};
  constexpr std::uint16_t kElements = 256;
  constexpr double kGoal = 1 / 1.1;  // of raw add in the same order
  std::printf("\nentries from memory: %u elements, kernels %s, %d rounds interleaved\n", kElements,
              std::string(kernels.name).c_str(), kRounds);
  nlohmann::json out = nlohmann::json::array();
  for (const Order& order : kOrders) {
    std::vector<jobs::NativeJob> all;
    for (std::uint16_t id = 1; id <= order.jobs; ++id)
      all.push_back(make_job({.elements = kElements, .id = id, .window = order.window}));
    RawAdd raw(all, job_box(), kernels, order.skew);
    PipelineAlone<pipeline::Fused> fused(all, job_box(), kernels, true, order.skew);
    std::vector<Contender> contenders{
        {std::string("raw add, ") + order.name, [&] { return undisturbed(raw); }},
        {order.name, [&] { return undisturbed(fused); }}};
    const auto figures = measure(contenders, kRounds);
    for (std::size_t i = 0; i < figures.size(); ++i)
      print_row({figures[i], i == 1 ? kGoal : 0}, figures.front().median_ns, kElements);
    out.push_back({{"key", order.key},
                   {"raw_median_ns", figures[0].median_ns},
                   {"median_ns", figures[1].median_ns},
                   {"min_ns", figures[1].min_ns},
                   {"max_ns", figures[1].max_ns},
                   {"share_of_raw_add", figures[0].median_ns / figures[1].median_ns}});
  }
  return out;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  const std::string file = json_argument(argc, argv);
  nlohmann::json results{{"environment", environment()}, {"runs", nlohmann::json::array()}};
  print_environment();
  for (const std::uint16_t elements : {std::uint16_t{256}, std::uint16_t{352}, std::uint16_t{64}}) {
    results["runs"].push_back(run(elements, tally::kernels::best_kernels()));
  }
  const tally::kernels::Kernels& best = tally::kernels::best_kernels();
  results["cold"] = run_cold(best);
  for (const tally::kernels::Kernels* other : tally::kernels::usable_kernels())
    if (other != &best && other->name == "avx2") results["runs"].push_back(run(256, *other));
  results["shared"] = run_shared(tally::kernels::best_kernels());
  write_json(file, results);
  return 0;
}
