// The data plane's loop on the in-memory port against the raw add kernel and the pipeline alone, in one run:
// performance.md, goal 1. 256 elements, window 256, frames from a ring of at least 4 MiB. One thread.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "eal.h"
#include "fused.h"
#include "harness.h"
#include "loop_rig.h"
#include "pipeline_contenders.h"
#include "scratch.h"
#include "started.h"

namespace tally::bench {
namespace {

constexpr std::uint16_t kElements = 256;
constexpr std::uint8_t kMembers = 8;
// Frame, FCS, preamble and gap: what a contribution takes of a link.
constexpr double kWireBits = 8.0 * (Traffic::kHeaders + 4 * kElements + 4 + 20);
constexpr double kUnicastGoal = 3.2;  // times raw add
constexpr double kMulticastGoal = 2.0;
constexpr double kServerGoal = 25;  // times the elements of a scalar server

// What the command line asks for.
struct Wish {
  std::string json{};
  std::vector<std::uint16_t> members{kMembers, 2, 4, 16, 32};
  std::vector<std::string> only{};  // keys of rows beside raw add; empty: all
  int rounds = 31;
};

struct Row {
  std::string key;         // for programs
  std::uint8_t world = 0;  // compared with raw add at as many members
  double goal = 0;         // at most so many times raw add; 0: none
};

// Contenders that are measured in turn, and what is known of each, in the order of the table.
class Bench {
 public:
  Bench(std::string directory, const Wish& wish) : directory_(std::move(directory)), wish_(wish) {}

  void add_raw(std::uint8_t world) {
    const Job job = make_job({.world = world, .elements = kElements});
    raw_.push_back(std::make_unique<RawAdd>(job, job_box(), best_kernels()));
    add({"raw_add", world}, "raw add", [raw = raw_.back().get()] { return undisturbed(*raw); });
  }
  void add_pipeline() {
    if (!wished("pipeline")) return;
    const Job job = make_job({.world = kMembers, .elements = kElements});
    pipeline_ = std::make_unique<PipelineAlone<Fused>>(job, job_box(), best_kernels(), true);
    add({"pipeline", kMembers}, "pipeline alone", [this] { return undisturbed(*pipeline_); });
  }
  void add_rig(const Row& row, const std::string& name, const RigOptions& options) {
    if (!wished(row.key)) return;
    rigs_.push_back(std::make_unique<LoopRig>(options, "bench" + std::to_string(rigs_.size()), directory_));
    add(row, name, [rig = rigs_.back().get()] { return undisturbed(*rig); });
  }

  [[nodiscard]] nlohmann::json run() {
    const auto figures = measure(contenders_, wish_.rounds);
    nlohmann::json rows = nlohmann::json::array();
    for (std::size_t i = 0; i < figures.size(); ++i) rows.push_back(print(rows_[i], figures[i], figures));
    return rows;
  }

 private:
  void add(Row row, std::string name, std::function<std::pair<double, std::uint64_t>()> round) {
    rows_.push_back(std::move(row));
    contenders_.push_back({std::move(name), std::move(round)});
  }

  [[nodiscard]] bool wished(const std::string& key) const {
    return wish_.only.empty() || std::ranges::find(wish_.only, key) != wish_.only.end();
  }

  [[nodiscard]] double raw_ns(std::uint8_t world, const std::vector<Figure>& figures) const {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (rows_[i].key == "raw_add" && rows_[i].world == world) return figures[i].median_ns;
    return 0;
  }

  nlohmann::json print(const Row& row, const Figure& f, const std::vector<Figure>& figures) const {
    const double ratio = f.median_ns / raw_ns(row.world, figures);
    const double gbits = kWireBits / f.median_ns;
    std::printf("%-40s %4u %7.1f %7.1f %7.1f %6.2f %6.2f %6.2f %6.1f", f.name.c_str(), row.world, f.median_ns,
                f.min_ns, f.max_ns, ratio, 1e3 / f.median_ns, kElements / f.median_ns, gbits);
    if (row.goal > 0)
      std::printf("  goal <= %.1f: %s", row.goal, ratio <= row.goal ? "reached" : "NOT reached");
    std::printf("\n");
    return {{"key", row.key},           {"name", f.name},      {"members", row.world},
            {"median_ns", f.median_ns}, {"min_ns", f.min_ns},  {"max_ns", f.max_ns},
            {"times_raw_add", ratio},   {"gbit_per_s", gbits}, {"goal_times_raw_add", row.goal}};
  }

  std::string directory_;
  const Wish& wish_;
  std::vector<std::unique_ptr<RawAdd>> raw_;
  std::unique_ptr<PipelineAlone<Fused>> pipeline_;
  std::vector<std::unique_ptr<LoopRig>> rigs_;
  std::vector<Row> rows_;
  std::vector<Contender> contenders_;
};

double ns_of(const nlohmann::json& rows, std::string_view key) {
  for (const auto& row : rows)
    if (row["key"] == key) return row["median_ns"];
  return 0;
}

// performance.md, goal 3. The port's own cost is the same in all of them; what is left when it is taken off
// is printed too.
nlohmann::json beside_servers(const nlohmann::json& rows) {
  nlohmann::json out = nlohmann::json::array();
  const double port = ns_of(rows, "port");
  std::printf(
      "\nelements/s per core, times those of a server (in brackets: without the port's own %.0f ns)\n", port);
  for (const char* const server : {"scalar_server", "vectorised_server"}) {
    const double theirs = ns_of(rows, server);
    for (const char* const ours : {"unicast", "multicast"}) {
      const double ns = ns_of(rows, ours);
      const double times = theirs / ns;
      const double without_port = (theirs - port) / (ns - port);
      std::printf("  %-9s / %-17s %5.2f (%.2f)", ours, server, times, without_port);
      if (std::string_view(server) == "scalar_server")
        std::printf("  goal >= %.0f: %s", kServerGoal, times >= kServerGoal ? "reached" : "NOT reached");
      std::printf("\n");
      out.push_back({{"ours", ours},
                     {"server", server},
                     {"times", times},
                     {"times_without_port", without_port},
                     {"goal_times", kServerGoal}});
    }
  }
  std::printf("\n");
  return out;
}

JobShape shape(std::uint8_t world, bool multicast, std::uint8_t ports = 1) {
  return {.world = world,
          .elements = kElements,
          .results = multicast ? ResultsMode::kMulticast : ResultsMode::kUnicast,
          .ports = ports};
}

using Runs = RigOptions::Runs;

void add_eight(Bench& bench) {
  bench.add_raw(kMembers);
  bench.add_rig({"raw_add_mbufs", kMembers}, "raw add over the port's mbufs",
                {.job = shape(kMembers, false), .runs = Runs::kRawAdd});
  bench.add_pipeline();
  bench.add_rig({"port", kMembers}, "port alone: receive and free",
                {.job = shape(kMembers, false), .runs = Runs::kPortAlone});
  bench.add_rig({"unicast", kMembers, kUnicastGoal}, "loop, unicast", {.job = shape(kMembers, false)});
  bench.add_rig({"multicast", kMembers, kMulticastGoal}, "loop, multicast", {.job = shape(kMembers, true)});
  bench.add_rig({"unicast_inline", kMembers, kUnicastGoal}, "loop, unicast, a port for each member",
                {.job = shape(kMembers, false, kMembers)});
  bench.add_rig({"multicast_inline", kMembers, kMulticastGoal}, "loop, multicast, a port for each member",
                {.job = shape(kMembers, true, kMembers)});
  bench.add_rig({"port_headers_only", kMembers}, "port alone, payload not read",
                {.job = shape(kMembers, false), .runs = Runs::kPortAlone, .read_payload = false});
  bench.add_rig({"unicast_headers_only", kMembers}, "loop, unicast, payload not read",
                {.job = shape(kMembers, false), .read_payload = false});
  bench.add_rig({"multicast_headers_only", kMembers}, "loop, multicast, payload not read",
                {.job = shape(kMembers, true), .read_payload = false});
}

// Once more, beside servers of the same job on the same port.
void add_servers(Bench& bench) {
  bench.add_raw(kMembers);
  bench.add_rig({"port", kMembers}, "port alone: receive and free",
                {.job = shape(kMembers, false), .runs = Runs::kPortAlone});
  bench.add_rig({"unicast", kMembers}, "loop, unicast", {.job = shape(kMembers, false)});
  bench.add_rig({"multicast", kMembers}, "loop, multicast", {.job = shape(kMembers, true)});
  bench.add_rig({"scalar_server", kMembers}, "scalar server: deep copies, unicast",
                {.job = shape(kMembers, false), .runs = Runs::kScalarServer});
  bench.add_rig({"vectorised_server", kMembers}, "the same, vectorised by the compiler",
                {.job = shape(kMembers, false), .runs = Runs::kVectorisedServer});
}

void add_world(Bench& bench, std::uint8_t world) {
  bench.add_raw(world);
  bench.add_rig({"unicast", world}, "loop, unicast", {.job = shape(world, false)});
  bench.add_rig({"multicast", world}, "loop, multicast", {.job = shape(world, true)});
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  Wish wish;
  CLI::App app{"the data plane's loop on the in-memory port"};
  app.add_option("--json", wish.json, "also write the figures to this file");
  app.add_option("--members", wish.members, "numbers of members, in this order")
      ->delimiter(',')
      ->check(CLI::Range(2, 64));
  app.add_option("--only", wish.only, "keys of rows, as in the JSON; raw add is always there")
      ->delimiter(',');
  app.add_option("--rounds", wish.rounds, "of each row")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  nlohmann::json results{{"environment", environment()}};
  print_environment();
  // On pages of 4 KiB an mbuf takes a page.
  constexpr std::uint64_t kHugeMemory = std::uint64_t{240} << 20;
  const bool huge = tally::free_hugepage_bytes() >= kHugeMemory;
  const tally::EalOptions options{.program = argv[0],
                                  .instance = "bench-" + std::to_string(getpid()),
                                  .memory_bytes = huge ? kHugeMemory : 2 * kHugeMemory};
  const tally::Eal eal = started(tally::Eal::start(options, print_warnings));
  static const Scratch scratch;  // std::exit() removes it too
  std::printf("\n%u elements, window %u, kernels %s, %s, rings of 4 MiB, %d rounds interleaved\n", kElements,
              kBenchWindow, std::string(tally::best_kernels().name).c_str(),
              eal.hugepages() ? "hugepages" : "NO HUGEPAGES: every frame costs a walk of the page table",
              wish.rounds);
  std::printf("%-40s %4s %7s %7s %7s %6s %6s %6s %6s\n", "", "of", "ns", "min", "max", "x raw", "Mpps",
              "Gel/s", "Gb/s");
  results["loop"] = {{"elements", kElements},
                     {"window", kBenchWindow},
                     {"kernels", tally::best_kernels().name},
                     {"hugepages", eal.hugepages()},
                     {"rounds", wish.rounds}};
  nlohmann::json& rows = results["loop"]["rows"] = nlohmann::json::array();
  // Groups, so that their rings are not too many for the L3 cache at a time; each with its own raw add.
  for (const std::uint16_t world : wish.members) {
    Bench bench(scratch.path(), wish);
    if (world == kMembers) {
      add_eight(bench);
    } else {
      add_world(bench, static_cast<std::uint8_t>(world));
    }
    for (auto& row : bench.run()) rows.push_back(std::move(row));
  }
  if (wish.only.empty()) {
    Bench servers(scratch.path(), wish);
    add_servers(servers);
    nlohmann::json beside = servers.run();
    results["loop"]["servers"] = {{"ratios", beside_servers(beside)}, {"rows", std::move(beside)}};
  }
  write_json(wish.json, results);
  return 0;
}
