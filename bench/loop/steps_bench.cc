// Cycles of the production loop, step by step, on the in-memory port: what it takes to receive, check, add,
// replicate and send, by the kind of packet, at several numbers of members and sizes of packet. One thread.
// docs/bench.md says how to read it.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "command_line.h"
#include "harness.h"
#include "loop_rig.h"
#include "pipeline_contenders.h"
#include "start.h"

namespace tally::bench {
namespace {

struct Wish {
  std::string json{};
  std::vector<std::uint16_t> members{2, 4, 8, 16, 32};
  std::vector<std::uint16_t> elements{256};
  std::vector<std::string> results{"unicast", "multicast"};
  int rounds = 31;
};

// Raw add, the loop and the loop with stamps, of one number of members.
struct Row {
  Row(const JobShape& job, const std::string& name, const std::string& directory)
      : shape(job),
        raw(make_job(job), job_box(), kernels::best_kernels()),
        loop({.job = job}, "loop" + name, directory),
        profiled({.job = job}, "steps" + name, directory) {}

  JobShape shape;
  RawAdd raw;
  LoopRig loop;
  ProfiledRounds profiled;
};

nlohmann::json print(const Row& row, const Figure& raw, const Figure& loop, const Figure& with_stamps) {
  const StepFigures steps = row.profiled.figures(loop.median_ns);
  const bool multicast = row.shape.results == ResultsMode::kMulticast;
  std::printf("\n%u members, %u elements, %s results: raw add %.1f ns, the loop %.1f ns (%.2f x)\n%s",
              row.shape.world, row.shape.elements, multicast ? "multicast" : "unicast", raw.median_ns,
              loop.median_ns, loop.median_ns / raw.median_ns, step_table(steps).c_str());
  nlohmann::json out = step_json(steps);
  out["members"] = row.shape.world;
  out["elements"] = row.shape.elements;
  out["results"] = multicast ? "multicast" : "unicast";
  out["rounds"] = row.profiled.rounds();
  out["raw_add_ns"] = raw.median_ns;
  out["loop_ns"] = loop.median_ns;
  out["loop_with_stamps_ns"] = with_stamps.median_ns;
  return out;
}

// All numbers of members in turn: what is read off is how the steps change with them.
void run(const Wish& wish, JobShape shape, const std::string& directory, nlohmann::json& out) {
  static int rigs = 0;
  std::vector<std::unique_ptr<Row>> rows;
  std::vector<Contender> contenders;
  for (const std::uint16_t world : wish.members) {
    shape.world = static_cast<std::uint8_t>(world);
    rows.push_back(std::make_unique<Row>(shape, std::to_string(rigs++), directory));
    Row* const row = rows.back().get();
    contenders.push_back({"raw add", [row] { return undisturbed(row->raw); }});
    contenders.push_back({"loop", [row] { return undisturbed(row->loop); }});
    contenders.push_back({"loop with stamps", [row] { return undisturbed(row->profiled); }});
  }
  const auto figures = measure(contenders, wish.rounds);
  for (std::size_t i = 0; i < rows.size(); ++i)
    out.push_back(print(*rows[i], figures[3 * i], figures[3 * i + 1], figures[3 * i + 2]));
  std::fflush(stdout);
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  Wish wish;
  CommandLine line("cycles of the data plane's loop, step by step");
  line.option("--json", wish.json, "also write the figures to this file");
  line.option("--members", wish.members, "numbers of members").range(2, 64);
  line.option("--elements", wish.elements, "values in a packet, multiples of 16").check(packet_elements, "N");
  line.option("--results", wish.results, "unicast, multicast").one_of({"unicast", "multicast"});
  line.option("--rounds", wish.rounds, "of each").positive();
  line.parse(argc, argv);
  nlohmann::json results{{"environment", environment()}, {"steps", nlohmann::json::array()}};
  print_environment();
  const tally::dpdk::Eal eal = start_bench_eal(argv[0]);
  static const Scratch scratch;  // std::exit() removes it too
  std::printf("\nwindow %u, kernels %s, %s, %d rounds interleaved\n", kBenchWindow,
              std::string(tally::kernels::best_kernels().name).c_str(), hugepages_text(eal), wish.rounds);
  for (const std::uint16_t elements : wish.elements)
    for (const std::string& mode : wish.results)
      run(wish,
          {.elements = elements,
           .results = mode == "multicast" ? tally::ResultsMode::kMulticast : tally::ResultsMode::kUnicast},
          scratch.path(), results["steps"]);
  write_json(wish.json, results);
  return 0;
}
