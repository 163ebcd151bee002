// Reruns seeds of the simulator: tally_sim_run --seed N | --seeds FIRST:COUNT [--boxes | --racks | --sparse
// | --tables] [--verbose] [--trace]. Exit codes: 0 all invariants held, 1 some seed failed (its command is printed), 2 usage.

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>

#include "simulation.h"
#include "table_life.h"

namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int usage() {
  std::fputs(
      "usage: tally_sim_run --seed N | --seeds FIRST:COUNT [--boxes | --racks | --sparse | --tables] "
      "[--verbose] [--trace]\n",
      stderr);
  return 2;
}

struct Totals {
  std::uint64_t events = 0, frames = 0, right = 0, failed = 0, incomplete = 0, forged = 0, bad_seeds = 0;
  std::uint64_t epochs_again = 0, boxes_lost = 0;
  std::uint64_t slowest = 0;  // seed
  tally::TimeNs longest = 0;  // from healing to the end
};

// One line per frame: when, whose link, which way, and what the header says.
void trace(tally::sim::Simulation& simulation) {
  simulation.network().observe([&](std::size_t worker, bool up, const tally::Bytes& frame) {
    constexpr std::size_t kOuter = 42;
    const auto h = tally::header_of(std::span{frame}.subspan(kOuter));
    std::printf(
        "%12.3f us  link %zu %s type %2u flags %2u job %u rank %5u epoch %08x chunk %u slot %u elements %u "
        "contributors %lx\n",
        static_cast<double>(simulation.schedule().now()) * 1e-3, worker, up ? "->" : "<-",
        static_cast<unsigned>(h.type), h.flags, h.job.host(), h.rank.host(), h.epoch.host(), h.chunk.host(),
        h.slot.host(), h.elements.host(), h.contributors.host());
  });
}

struct How {
  tally::sim::Scenario (*scenario_of)(std::uint64_t seed) = tally::sim::scenario_of;
  const char* option = "";
  bool tables = false;
  bool verbose = false;
  bool traced = false;
};

tally::sim::Report run_of(const tally::sim::Scenario& scenario, const How& how) {
  tally::sim::Simulation simulation(scenario);
  if (how.traced) trace(simulation);
  return simulation.run();
}

tally::sim::Report life_of(std::uint64_t seed, const How& how) {
  tally::sim::TableLife life(seed);
  if (how.traced) trace(life.simulation());
  const auto report = life.run();
  if (how.verbose)
    std::printf("  %lu rounds, %lu sets, %lu moves, %lu workers and %lu servers lost%s\n", report.rounds,
                report.sets, report.moves, report.workers_lost, report.servers_lost,
                report.over ? ", over" : "");
  return report;
}

void run_one(std::uint64_t seed, const How& how, Totals& totals) {
  const auto scenario = how.scenario_of(seed);
  if (how.verbose) std::printf("seed %lu: %s\n", seed, describe(scenario).c_str());
  const auto report = how.tables ? life_of(seed, how) : run_of(scenario, how);
  totals.events += report.events;
  totals.frames += report.frames;
  totals.right += report.right;
  totals.failed += report.failed;
  totals.incomplete += report.incomplete;
  totals.forged += report.forged;
  totals.epochs_again += report.epochs_again;
  totals.boxes_lost += report.boxes_lost;
  if (report.took >= totals.longest) {
    totals.longest = report.took;
    totals.slowest = seed;
  }
  if (how.verbose) {
    std::printf(
        "  ended at %.3f s, %.3f s after healing, after %lu events and %lu frames: %lu operations right, %lu "
        "failed with an error\n",
        static_cast<double>(report.ended) * 1e-9, static_cast<double>(report.took) * 1e-9, report.events,
        report.frames, report.right, report.failed);
  }
  if (report.ok()) return;
  ++totals.bad_seeds;
  std::printf("seed %lu FAILED: %s\n", seed, describe(scenario).c_str());
  for (const auto& what : report.broken) std::printf("  %s\n", what.c_str());
  std::printf("  again: tally_sim_run%s --seed %lu --verbose\n", how.option, seed);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<std::uint64_t> first;
  std::optional<std::uint64_t> count;
  How how;
  for (int i = 1; i < argc; ++i) {
    const std::string_view arg = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (arg == "--verbose") {
      how.verbose = true;
    } else if (arg == "--trace") {
      how.traced = true;
    } else if (arg == "--boxes") {
      how.scenario_of = tally::sim::boxes_scenario_of;
      how.option = " --boxes";
    } else if (arg == "--racks") {
      how.scenario_of = tally::sim::racks_scenario_of;
      how.option = " --racks";
    } else if (arg == "--sparse") {
      how.scenario_of = tally::sim::sparse_scenario_of;
      how.option = " --sparse";
    } else if (arg == "--tables") {
      how.scenario_of = tally::sim::tables_scenario_of;
      how.option = " --tables";
      how.tables = true;
    } else if (arg == "--seed") {
      first = number(value);
      count = 1;
      ++i;
    } else if (arg == "--seeds") {
      const auto colon = value.find(':');
      if (colon == std::string_view::npos) return usage();
      first = number(value.substr(0, colon));
      count = number(value.substr(colon + 1));
      ++i;
    } else {
      return usage();
    }
  }
  if (!first || !count) return usage();
  Totals totals;
  for (std::uint64_t seed = *first; seed < *first + *count; ++seed) run_one(seed, how, totals);
  std::printf(
      "%lu seeds, %lu events, %lu frames, %lu operations exact, %lu ended with an error, %lu results "
      "incomplete, %lu epochs of a generation that was there, %lu times a box lost, %lu packets forged, %lu "
      "seeds failed; the slowest, %lu, ended %.3f s after healing\n",
      *count, totals.events, totals.frames, totals.right, totals.failed, totals.incomplete,
      totals.epochs_again, totals.boxes_lost, totals.forged, totals.bad_seeds, totals.slowest,
      static_cast<double>(totals.longest) * 1e-9);
  return totals.bad_seeds == 0 ? 0 : 1;
}
