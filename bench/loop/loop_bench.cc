// The data plane's loop on the in-memory port against the raw add kernel and the pipeline alone, in one run:
// performance.md, goal 1. 256 elements, and what MTUs of 1500 and 9000 carry; window 256, frames from a ring
// of at least 4 MiB. One thread.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.h"
#include "harness.h"
#include "loop_rig.h"
#include "pipeline/fused.h"
#include "pipeline_contenders.h"
#include "start.h"

namespace tally::bench {
namespace {

constexpr std::uint16_t kElements = 256;
constexpr std::uint16_t kElementsOfMtu1500 = 352;
constexpr std::uint16_t kElementsOfMtu9000 = 2224;
constexpr std::uint8_t kMembers = 8;
constexpr double kLineRate = 100;   // Gbit/s
constexpr double kUnicastGoal = 3;  // times raw add, with the port as a NIC
constexpr double kServerGoal = 25;  // times the elements of a scalar server

// What the command line asks for.
struct Wish {
  std::string json{};
  std::vector<std::uint16_t> members{kMembers, 2, 4, 16, 32};
  std::vector<std::uint16_t> elements{};  // empty: all three, or with `only` those of kElements
  std::vector<std::string> only{};        // keys of rows beside raw add; empty: all
  int rounds = 31;
};

struct Row {
  std::string key;         // for programs
  std::uint8_t world = 0;  // compared with raw add at as many members
  double goal = 0;         // at most so many times raw add; 0: none
};

double multicast_goal() { return kernels::best_kernels().name == "avx512" ? 1.7 : 2.4; }

// Frame, FCS, preamble and gap: what a contribution takes of a link.
double wire_bits(std::uint16_t elements) {
  return 8.0 * (static_cast<double>(Traffic::kHeaders) + 4.0 * elements + 4 + 20);
}

// Contenders that are measured in turn, and what is known of each, in the order of the table.
class Bench {
 public:
  Bench(std::string directory, const Wish& wish, std::uint16_t elements = kElements)
      : directory_(std::move(directory)), wish_(wish), elements_(elements) {}

  void add_raw(std::uint8_t world) {
    const jobs::NativeJob job = make_job({.world = world, .elements = elements_});
    raw_.push_back(std::make_unique<RawAdd>(job, job_box(), kernels::best_kernels()));
    add({"raw_add", world}, "raw add", [raw = raw_.back().get()] { return undisturbed(*raw); });
  }
  void add_pipeline() {
    if (!wished("pipeline")) return;
    const jobs::NativeJob job = make_job({.world = kMembers, .elements = elements_});
    pipeline_ =
        std::make_unique<PipelineAlone<pipeline::Fused>>(job, job_box(), kernels::best_kernels(), true);
    add({"pipeline", kMembers}, "pipeline alone", [this] { return undisturbed(*pipeline_); });
  }
  void add_rig(const Row& row, const std::string& name, RigOptions options) {
    if (!wished(row.key)) return;
    options.job.elements = elements_;
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
    const double gbits = wire_bits(elements_) / f.median_ns;
    std::printf("%-40s %4u %4u %7.1f %7.1f %7.1f %6.2f %6.2f %6.2f %6.1f %5.0f", f.name.c_str(), row.world,
                elements_, f.median_ns, f.min_ns, f.max_ns, ratio, 1e3 / f.median_ns, elements_ / f.median_ns,
                gbits, 100 * gbits / kLineRate);
    if (row.goal > 0)
      std::printf("  goal <= %.1f: %s", row.goal, ratio <= row.goal ? "reached" : "NOT reached");
    std::printf("\n");
    return {{"key", row.key},
            {"name", f.name},
            {"members", row.world},
            {"elements", elements_},
            {"median_ns", f.median_ns},
            {"min_ns", f.min_ns},
            {"max_ns", f.max_ns},
            {"times_raw_add", ratio},
            {"gbit_per_s", gbits},
            {"share_of_100_gbit", gbits / kLineRate},
            {"goal_times_raw_add", row.goal}};
  }

  std::string directory_;
  const Wish& wish_;
  std::uint16_t elements_;
  std::vector<std::unique_ptr<RawAdd>> raw_;
  std::unique_ptr<PipelineAlone<pipeline::Fused>> pipeline_;
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
  return {
      .world = world, .results = multicast ? ResultsMode::kMulticast : ResultsMode::kUnicast, .ports = ports};
}

using Runs = RigOptions::Runs;

void add_eight(Bench& bench) {
  bench.add_raw(kMembers);
  bench.add_rig({"raw_add_mbufs", kMembers}, "raw add over the port's mbufs",
                {.job = shape(kMembers, false), .runs = Runs::kRawAdd});
  bench.add_pipeline();
  bench.add_rig({"port", kMembers}, "port alone: receive and free",
                {.job = shape(kMembers, false), .runs = Runs::kPortAlone});
  bench.add_rig({"unicast", kMembers}, "loop, unicast", {.job = shape(kMembers, false)});
  bench.add_rig({"multicast", kMembers}, "loop, multicast", {.job = shape(kMembers, true)});
  JobShape leaves_out = shape(kMembers, false);
  leaves_out.sparse = true;
  bench.add_rig({"unicast_sparse", kMembers}, "loop, unicast, zeros may be left out", {.job = leaves_out});
  bench.add_rig({"unicast_inline", kMembers}, "loop, unicast, a port for each member",
                {.job = shape(kMembers, false, kMembers)});
  bench.add_rig({"multicast_inline", kMembers}, "loop, multicast, a port for each member",
                {.job = shape(kMembers, true, kMembers)});
}

void add_nic_loops(Bench& bench, std::uint8_t world) {
  bench.add_rig({"unicast_nic", world, kUnicastGoal}, "NIC: loop, unicast",
                {.job = shape(world, false), .driver = Driver::kNic});
  bench.add_rig({"multicast_nic", world, world == kMembers ? multicast_goal() : 0}, "NIC: loop, multicast",
                {.job = shape(world, true), .driver = Driver::kNic});
}

// The port as a NIC: what a core has to do where frames and results cross a card. Also from a ring that L3
// does not hold, which is where frames lie on machines whose cards write to memory.
void add_nic(Bench& bench) {
  bench.add_raw(kMembers);
  bench.add_rig({"raw_add_mbufs", kMembers}, "raw add over the port's mbufs",
                {.job = shape(kMembers, false), .runs = Runs::kRawAdd, .driver = Driver::kNic});
  bench.add_rig({"port_nic", kMembers}, "NIC: port alone",
                {.job = shape(kMembers, false), .runs = Runs::kPortAlone, .driver = Driver::kNic});
  add_nic_loops(bench, kMembers);
  bench.add_rig({"multicast_nic_large_ring", kMembers}, "NIC: loop, multicast, ring of 64 MiB",
                {.job = shape(kMembers, true), .driver = Driver::kNic, .ring_bytes = std::size_t{64} << 20});
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
  add_nic_loops(bench, world);
}

// A packet of another size: at eight members, since the curve is that of 256 elements.
void add_format(Bench& bench) {
  bench.add_raw(kMembers);
  bench.add_rig({"port", kMembers}, "port alone: receive and free",
                {.job = shape(kMembers, false), .runs = Runs::kPortAlone});
  bench.add_rig({"unicast", kMembers}, "loop, unicast", {.job = shape(kMembers, false)});
  bench.add_rig({"multicast", kMembers}, "loop, multicast", {.job = shape(kMembers, true)});
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  Wish wish;
  CommandLine line("the data plane's loop on the in-memory port");
  line.option("--json", wish.json, "also write the figures to this file");
  line.option("--members", wish.members, "numbers of members, in this order").range(2, 64);
  line.option("--elements", wish.elements,
              "values in a packet, multiples of 16: of 256 all members, of others eight")
      .check(packet_elements, "N");
  line.option("--only", wish.only, "keys of rows, as in the JSON; raw add is always there");
  line.option("--rounds", wish.rounds, "of each row").positive();
  line.parse(argc, argv);
  const bool given = !wish.elements.empty();
  nlohmann::json results{{"environment", environment()}};
  print_environment();
  const tally::dpdk::Eal eal = start_bench_eal(argv[0]);
  static const Scratch scratch;  // std::exit() removes it too
  std::printf("\nwindow %u, kernels %s, %s, rings of 4 MiB, %d rounds interleaved\n", kBenchWindow,
              std::string(tally::kernels::best_kernels().name).c_str(), hugepages_text(eal), wish.rounds);
  std::printf("%-40s %4s %4s %7s %7s %7s %6s %6s %6s %6s %5s\n", "", "of", "el", "ns", "min", "max", "x raw",
              "Mpps", "Gel/s", "Gb/s", "%100G");
  results["loop"] = {{"elements", kElements},
                     {"window", kBenchWindow},
                     {"kernels", tally::kernels::best_kernels().name},
                     {"hugepages", eal.hugepages()},
                     {"rounds", wish.rounds}};
  nlohmann::json& rows = results["loop"]["rows"] = nlohmann::json::array();
  // Groups, so that their rings are not too many for the L3 cache at a time; each with its own raw add.
  nlohmann::json& formats = results["loop"]["formats"] = nlohmann::json::array();
  const auto run = [&](nlohmann::json& to, std::uint16_t elements, const auto& add) {
    Bench bench(scratch.path(), wish, elements);
    add(bench);
    for (auto& row : bench.run()) to.push_back(std::move(row));
  };
  if (!given) wish.elements = {kElements};
  if (!given && wish.only.empty())
    wish.elements.insert(wish.elements.end(), {kElementsOfMtu1500, kElementsOfMtu9000});
  for (const std::uint16_t elements : wish.elements) {
    if (elements != kElements) {
      run(formats, elements, add_format);
      continue;
    }
    for (const std::uint16_t world : wish.members) {
      if (world == kMembers) {
        run(rows, elements, add_eight);
        run(rows, elements, add_nic);
      } else {
        run(rows, elements, [world](Bench& bench) { add_world(bench, static_cast<std::uint8_t>(world)); });
      }
    }
  }
  if (wish.only.empty() && !given) {
    Bench servers(scratch.path(), wish);
    add_servers(servers);
    nlohmann::json beside = servers.run();
    results["loop"]["servers"] = {{"ratios", beside_servers(beside)}, {"rows", std::move(beside)}};
  }
  write_json(wish.json, results);
  return 0;
}
