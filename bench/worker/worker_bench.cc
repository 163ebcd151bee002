// What a chunk costs the worker engine by itself, without a transport: one thread, a window of 256 chunks in
// flight, bursts of 32, against a box in the same thread whose time is not counted. Beside it, over the same
// memory in the same run, its kernels alone and two copies of the values.
//
//   tally_worker_bench [--json FILE] [--rounds N] [--only WORD]    WORD: of a line, such as float32 or 352

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "command_line.h"
#include "harness.h"
#include "worker_run.h"

namespace tally::bench {
namespace {

struct Words {
  std::string json;
  std::string only;
  int rounds = 7;
};

// ns per chunk.
struct Cost {
  std::vector<double> all{};
  std::vector<double> sending{};
  std::vector<double> receiving{};
  std::vector<double> gigabytes{};  // of values per second, in and out as one

  void add(const Spent& spent) {
    sending.push_back(spent.sending.ns_per_chunk());
    receiving.push_back(spent.receiving.ns_per_chunk());
    all.push_back(sending.back() + receiving.back());
    gigabytes.push_back(spent.bytes_per_chunk / all.back());
  }
};

double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

nlohmann::json row(const char* name, const Cost& cost, double least) {
  const double ns = median(cost.all);
  std::printf("  %-22s %8.1f %8.1f %8.1f %8.2f %8.2f\n", name, ns, median(cost.sending),
              median(cost.receiving), median(cost.gigabytes), ns / least);
  return {{"name", name},
          {"ns_per_chunk", ns},
          {"min_ns", *std::min_element(cost.all.begin(), cost.all.end())},
          {"max_ns", *std::max_element(cost.all.begin(), cost.all.end())},
          {"sending_ns", median(cost.sending)},
          {"receiving_ns", median(cost.receiving)},
          {"gigabytes_per_s", median(cost.gigabytes)},
          {"times_kernels", ns / least}};
}

template <class T>
void run(const char* type, const RunShape& shape, const Words& words, nlohmann::json& runs) {
  const std::string title = std::string(type) + ", " + std::to_string(shape.elements) + " elements, " +
                            (shape.small ? "values in L2" : "256 MiB of values");
  if (title.find(words.only) == std::string::npos) return;
  WorkerRun<T> run(shape, kernels::best_kernels());
  WorkerRun<T> looking({shape.elements, shape.small, true}, kernels::best_kernels());
  Cost engine;
  Cost looks;
  Cost kernels;
  Cost copies;
  for (int round = -1; round < words.rounds; ++round) {
    const std::array<Spent, 4> spent{run.engine(), run.kernels(), run.copies(), looking.engine()};
    if (round < 0) continue;
    looks.add(spent[3]);
    engine.add(spent[0]);
    kernels.add(spent[1]);
    copies.add(spent[2]);
  }
  std::printf("\n%-24s %8s %8s %8s %8s %8s\n", title.c_str(), "ns/chunk", "sending", "receiv.", "GB/s",
              "x kernels");
  const double least = median(kernels.all);
  nlohmann::json rows{row("engine", engine, least), row("... looking for zeros", looks, least),
                      row("its kernels alone", kernels, least), row("memcpy out and back", copies, least)};
  runs.push_back({{"type", type}, {"elements", shape.elements}, {"small", shape.small}, {"rows", rows}});
}

void run_all(const Words& words) {
  nlohmann::json runs = nlohmann::json::array();
  print_environment();
  std::printf("kernels %s, window %u, bursts of %zu, medians of %d interleaved rounds\n",
              std::string(kernels::best_kernels().name).c_str(), kWorkerWindow, kWorkerBurst, words.rounds);
  for (const bool small : {true, false}) {
    for (const std::uint16_t elements : {std::uint16_t{256}, std::uint16_t{352}, std::uint16_t{2224}}) {
      run<std::int32_t>("int32", {elements, small}, words, runs);
      run<float>("float32", {elements, small}, words, runs);
    }
  }
  require(!runs.empty(), "--only fits no line");
  write_json(words.json,
             {{"environment", environment()}, {"kernels", kernels::best_kernels().name}, {"runs", runs}});
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  tally::bench::Words words;
  tally::bench::CommandLine line("Time of the worker engine per chunk", "tally_worker_bench");
  line.option("--json", words.json, "Also write the figures to this file");
  line.option("--rounds", words.rounds, "Of each line (default 7)").range(1, 1000);
  line.option("--only", words.only, "Lines whose title holds this");
  line.parse(argc, argv);
  tally::bench::run_all(words);
  return 0;
}
