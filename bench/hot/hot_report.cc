// What a hot set is worth, for the workloads of docs/hot_keys.md. Every figure: reckoned for the most frequent keys,
// or drawn with --draw, through sketches and agreements of as many workers.

#include <CLI/CLI.hpp>
#include <array>
#include <cstdint>
#include <cstdio>

#include "hot_run.h"
#include "zipf.h"

namespace {

using tally::bench::HotRun;
using tally::bench::Traffic;
using tally::bench::Workload;

constexpr std::array kLoads{Workload{1'000'000, 0.6, 13'312, 0},  Workload{1'000'000, 0.9, 13'312, 0},
                            Workload{1'000'000, 1.05, 13'312, 0}, Workload{10'000'000, 1.05, 26'624, 0},
                            Workload{10'000'000, 1.2, 26'624, 0}, Workload{1'000'000, 1.2, 13'312, 0}};
constexpr std::array<std::uint32_t, 4> kWorkers{4, 8, 16, 32};

struct Options {
  std::uint32_t hot = 30'000;
  std::uint32_t sampled = 32;
  std::uint32_t every = 32;
  std::size_t only = kLoads.size();
  std::uint64_t seed = 1;
  bool draw = false;
  std::uint32_t width = 0;  // links; 0: no
};

void reckon(const Workload& load, std::uint32_t hot) {
  for (const std::uint32_t workers : kWorkers) {
    Workload of = load;
    of.workers = workers;
    const Traffic t = tally::bench::expected(of, hot);
    std::printf("  W %2u: %4.2f %4.2f", workers, t.pairs(), t.bytes());
    if (workers == kWorkers.back()) std::printf("  pushes hot %2.0f %%\n", 100 * t.hot_share());
  }
}

// By links alone, with more and more servers: what this set gains, and the best of other sizes.
void reckon_links(const Workload& load, const Options& options) {
  constexpr std::uint32_t kLeast = 100;
  constexpr std::uint32_t kMost = 100'000;
  for (const std::uint32_t workers : {8U, 32U}) {
    Workload of = load;
    of.workers = workers;
    std::printf("  W %2u:", workers);
    for (const std::uint32_t servers : {1U, 2U, 4U, 8U}) {
      double best = 1;
      std::uint32_t size = 0;
      for (std::uint32_t hot = kLeast; hot <= kMost; hot += hot / 5) {
        const double gain = tally::bench::link_gain(of, hot, servers, options.width);
        if (gain <= best) continue;
        best = gain;
        size = hot;
      }
      std::printf("  %u servers %4.2f, best %4.2f with %u", servers,
                  tally::bench::link_gain(of, options.hot, servers, options.width), best, size);
    }
    std::printf("\n");
  }
}

void draw(const Workload& load, const Options& options) {
  for (const std::uint32_t workers : kWorkers) {
    Workload of = load;
    of.workers = workers;
    const HotRun run = tally::bench::hot_run({.load = of,
                                              .limits = {options.hot, 0},
                                              .every = options.every,
                                              .sampled = options.sampled,
                                              .seed = options.seed});
    const double pairs = tally::bench::expected(of, options.hot).pairs();
    std::printf(
        "  W %2u: size %zu, pairs %4.2f of %4.2f (%5.3f), bytes %4.2f, gain kept %5.3f, new %zu, agreement "
        "%.0f KB, "
        "counting %.1f ns a key\n",
        workers, run.size, run.traffic.pairs(), pairs, run.traffic.pairs() / pairs, run.traffic.bytes(),
        run.gain_kept, run.newcomers, run.agreement_bytes / 1000, run.counting_ns);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{
      "What a hot set is worth: pairs of key and value, and bytes, at the servers without it over those with "
      "it"};
  app.add_option("--hot", options.hot, "hot keys")->capture_default_str()->check(CLI::Range(1, 1'000'000));
  app.add_flag("--draw", options.draw, "draw batches and agree, instead of reckoning");
  app.add_option("--links", options.width, "links are what is waited for: rounds with rows of so many values")
      ->check(CLI::Range(1, 4096));
  app.add_option("--sampled", options.sampled, "rounds before an agreement")
      ->capture_default_str()
      ->check(CLI::Range(3, 1000));
  app.add_option("--every", options.every, "rounds between agreements")
      ->capture_default_str()
      ->check(CLI::Range(16, 1000));
  app.add_option("--only", options.only, "one workload, from 0")
      ->check(CLI::Range(std::size_t{0}, kLoads.size() - 1));
  app.add_option("--seed", options.seed, "of the draws")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  for (std::size_t i = 0; i < kLoads.size(); ++i) {
    if (options.only != kLoads.size() && options.only != i) continue;
    const Workload& load = kLoads[i];
    Workload one = load;
    one.workers = 1;
    std::printf("%u keys, Zipf %.2f, %u lookups a batch; half filled: %u keys\n", load.keys, load.exponent,
                load.lookups, tally::bench::size_of_fill(one, 0.5, load.keys));
    if (options.width != 0) {
      reckon_links(load, options);
    } else if (options.draw) {
      draw(load, options);
    } else {
      reckon(load, options.hot);
    }
  }
  return 0;
}
