// Cycles of the production loop, step by step, on the in-memory port: what it takes to receive, check, add,
// replicate and send, by the kind of packet, at several numbers of members and sizes of packet. One thread.
// docs/bench.md says how to read it.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench_eal.h"
#include "element_option.h"
#include "harness.h"
#include "pipeline_contenders.h"
#include "profiled_rounds.h"
#include "scratch.h"

namespace tally::bench {
namespace {

struct Wish {
  std::string json{};
  std::vector<std::uint16_t> members{2, 4, 8, 16, 32};
  std::vector<std::uint16_t> elements{256};
  std::vector<std::string> results{"unicast", "multicast"};
  int rounds = 31;
};

nlohmann::json run(const JobShape& shape, int rounds, const std::string& directory) {
  static int rigs = 0;
  const std::string name = std::to_string(rigs++);
  RawAdd raw(make_job(shape), job_box(), best_kernels());
  LoopRig loop({.job = shape}, "loop" + name, directory);
  ProfiledRounds profiled({.job = shape}, "steps" + name, directory);
  bool warm = false;
  std::vector<Contender> contenders{{"raw add", [&] { return undisturbed(raw); }},
                                    {"loop", [&] { return undisturbed(loop); }},
                                    {"loop with stamps", [&] {
                                       const auto round = undisturbed(profiled);
                                       if (!std::exchange(warm, true)) profiled.warmed_up();
                                       return round;
                                     }}};
  const auto figures = measure(contenders, rounds);
  const StepFigures steps = profiled.figures(figures[1].median_ns);
  const bool multicast = shape.results == ResultsMode::kMulticast;
  std::printf("\n%u members, %u elements, %s results: raw add %.1f ns, the loop %.1f ns (%.2f x)\n%s",
              shape.world, shape.elements, multicast ? "multicast" : "unicast", figures[0].median_ns,
              figures[1].median_ns, figures[1].median_ns / figures[0].median_ns, step_table(steps).c_str());
  std::fflush(stdout);
  nlohmann::json out = step_json(steps);
  out["members"] = shape.world;
  out["elements"] = shape.elements;
  out["results"] = multicast ? "multicast" : "unicast";
  out["rounds"] = profiled.rounds();
  out["raw_add_ns"] = figures[0].median_ns;
  out["loop_ns"] = figures[1].median_ns;
  out["loop_with_stamps_ns"] = figures[2].median_ns;
  return out;
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  Wish wish;
  CLI::App app{"cycles of the data plane's loop, step by step"};
  app.add_option("--json", wish.json, "also write the figures to this file");
  app.add_option("--members", wish.members, "numbers of members")->delimiter(',')->check(CLI::Range(2, 64));
  app.add_option("--elements", wish.elements, "values in a packet, multiples of 16")
      ->delimiter(',')
      ->check(elements_of_a_packet());
  app.add_option("--results", wish.results, "unicast, multicast")
      ->delimiter(',')
      ->check(CLI::IsMember({"unicast", "multicast"}));
  app.add_option("--rounds", wish.rounds, "of each")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  nlohmann::json results{{"environment", environment()}, {"steps", nlohmann::json::array()}};
  print_environment();
  const tally::Eal eal = start_bench_eal(argv[0]);
  static const Scratch scratch;  // std::exit() removes it too
  std::printf("\nwindow %u, kernels %s, %s, %d rounds interleaved\n", kBenchWindow,
              std::string(tally::best_kernels().name).c_str(), hugepages_text(eal), wish.rounds);
  for (const std::uint16_t elements : wish.elements)
    for (const std::string& mode : wish.results)
      for (const std::uint16_t world : wish.members)
        results["steps"].push_back(run(
            {.world = static_cast<std::uint8_t>(world),
             .elements = elements,
             .results = mode == "multicast" ? tally::ResultsMode::kMulticast : tally::ResultsMode::kUnicast},
            wish.rounds, scratch.path()));
  write_json(wish.json, results);
  return 0;
}
