#include "routes_sweep.h"

#include <cstdio>
#include <string>

#include "comparison.h"
#include "planner_support.h"
#include "setting.h"

namespace tally::routes {
namespace {

constexpr std::array<Scheme, kSchemes> kAll{Scheme::kLoadOnly, Scheme::kOwnRack, Scheme::kServersRack,
                                            Scheme::kEqualSplit, Scheme::kPlanned};

std::string describe(const Cell& cell) {
  return std::string(kSchemeNames[static_cast<std::size_t>(cell.scheme)]) + ", " +
         std::to_string(cell.workers) + " workers, " + (cell.unlike ? "unlike" : "like") + " links, seed " +
         std::to_string(cell.seed) + ", " + std::string(kPartNames[static_cast<std::size_t>(cell.part)]);
}

planner_test::Instance test_bed() {
  constexpr double kUnit = 7.7;  // Gbit/s
  constexpr double kWide = 1'000;
  planner_test::Instance made{{}, {.name = "test bed"}};
  planner::Topology& topology = made.topology;
  const planner::Index first = topology.add_switch("rack1");
  const planner::Index second = topology.add_switch("rack2");
  topology.add_link(first, second, kWide, kWide);
  for (int worker = 0; worker < 6; ++worker)
    made.job.workers.push_back(topology.add_host("host", worker < 5 ? first : second, kWide, kWide));
  topology.add_box("box1", first, 1.875 * kUnit);
  topology.add_box("box2", second, 1.725 * kUnit);
  for (const double ingress : {6.0, 11.4156})
    made.job.servers.push_back(
        topology.add_server("ps", topology.add_host("ps", second, kWide, kWide), ingress * kUnit));
  return made;
}

}  // namespace

std::vector<Cell> test_bed_cells() {
  std::vector<Cell> cells;
  for (const auto& [scheme, printed] : kTestBedRates)
    cells.push_back({.part = Part::kTestBed, .workers = 6, .scheme = scheme});
  return cells;
}

std::vector<Cell> all_cells(bool quick) {
  std::vector<Cell> cells;
  Conditions usual;
  if (quick) usual.chunks = planner::kGroups;
  const std::uint64_t seeds = quick ? 1 : 3;
  const auto add = [&cells](Part part, planner::Index workers, bool unlike, std::uint64_t seed, Scheme scheme,
                            const Conditions& conditions,
                            planner::Routing routing = planner::Routing::kChosen) {
    cells.push_back({part, workers, unlike, seed, scheme, routing, conditions});
  };
  // The longest first, so that no thread has one of them left at the end.
  for (const planner::Index workers : {50U, 40U, 30U, 20U, 10U}) {
    if (quick && workers % 20 != 10) continue;
    for (const bool unlike : {false, true}) {
      for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        for (const Scheme scheme : kAll) add(Part::kAgainstAtp, workers, unlike, seed, scheme, usual);
    }
  }
  Conditions changed = usual;
  for (const Scheme scheme : {Scheme::kServersRack, Scheme::kPlanned}) {
    for (const bool unlike : {false, true}) {
      changed = usual;
      changed.results = planner::Results::kCounted;
      for (const planner::Index workers : {10U, 30U, 50U})
        add(Part::kCounted, workers, unlike, 1, scheme, changed);
      if (quick) continue;
      changed = usual;
      changed.chunks *= 4;
      add(Part::kLonger, 30, unlike, 1, scheme, changed);
      for (const planner::Index workers : {10U, 30U, 50U}) {
        changed = usual;
        changed.spreading = Spreading::kAsTheyCome;
        add(Part::kOrder, workers, unlike, 1, scheme, changed);
        changed.spreading = Spreading::kByFlow;
        add(Part::kOrder, workers, unlike, 1, scheme, changed, planner::Routing::kEcmp);
      }
      for (const std::uint32_t window : {64U, 128U, 512U}) {
        changed = usual;
        changed.window = window;
        add(Part::kWindow, 30, unlike, 1, scheme, changed);
      }
    }
  }
  changed = usual;
  changed.rto_floor = engine::kPollRtoFloor;
  for (const Scheme scheme : {Scheme::kLoadOnly, Scheme::kServersRack, Scheme::kPlanned})
    if (!quick) add(Part::kPolling, 30, true, 1, scheme, changed);
  return cells;
}

Result<Done> run_one(const Cell& cell) {
  const auto instance = cell.part == Part::kTestBed
                            ? test_bed()
                            : planner_test::fat_tree_instance(cell.workers, cell.seed, cell.unlike);
  planner::Ways ways(instance.topology);
  const auto laid =
      lay(cell.scheme, {instance.topology, ways, cell.routing, cell.conditions.results}, instance.job);
  if (!laid) return tl::unexpected<Error>(laid.error());
  const auto measured = run(instance.topology, ways, instance.job, *laid, cell.conditions);
  if (!measured) return tl::unexpected<Error>(measured.error());
  return Done{cell, laid->at_best, laid->rate, *measured};
}

std::vector<Done> run_all(const std::vector<Cell>& cells, unsigned threads) {
  std::vector<Done> done(cells.size());
  bench::on_threads(threads, cells.size(), [&](std::size_t i) {
    auto one = run_one(cells[i]);
    if (!one) experiment::broken(describe(cells[i]) + ": " + one.error().text());
    done[i] = std::move(*one);
    std::fprintf(stderr, "%zu of %zu: %s: %.3f of %.3f Gbit/s\n", i + 1, cells.size(),
                 describe(cells[i]).c_str(), done[i].measured.rate, done[i].planned);
  });
  return done;
}

}  // namespace tally::routes
