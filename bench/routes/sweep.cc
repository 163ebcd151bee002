#include "sweep.h"

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

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

}  // namespace

std::vector<Cell> all_cells(bool quick) {
  std::vector<Cell> cells;
  Conditions usual;
  if (quick) usual.chunks = planner::kGroups;
  const std::uint64_t seeds = quick ? 1 : 3;
  // The longest first, so that no thread has one of them left at the end.
  for (const planner::Index workers : {50U, 40U, 30U, 20U, 10U}) {
    if (quick && workers % 20 != 10) continue;
    for (const bool unlike : {false, true}) {
      for (std::uint64_t seed = 1; seed <= seeds; ++seed)
        for (const Scheme scheme : kAll)
          cells.push_back(
              {Part::kAgainstAtp, workers, unlike, seed, scheme, planner::Routing::kChosen, usual});
      for (const Scheme scheme : {Scheme::kServersRack, Scheme::kPlanned}) {
        Cell cell{Part::kCounted, workers, unlike, 1, scheme, planner::Routing::kChosen, usual};
        cell.conditions.results = planner::Results::kCounted;
        cells.push_back(cell);
      }
    }
  }
  if (quick) return cells;
  for (const Scheme scheme : {Scheme::kLoadOnly, Scheme::kServersRack, Scheme::kPlanned}) {
    for (const planner::Index workers : {30U, 50U}) {
      Cell cell{Part::kPolling, workers, true, 1, scheme, planner::Routing::kChosen, usual};
      cell.conditions.rto_floor = engine::kPollRtoFloor;
      cells.push_back(cell);
    }
  }
  for (const Scheme scheme : {Scheme::kServersRack, Scheme::kPlanned}) {
    for (const bool unlike : {false, true}) {
      Cell cell{Part::kLonger, 30, unlike, 1, scheme, planner::Routing::kChosen, usual};
      cell.conditions.chunks *= 4;
      cells.push_back(cell);
      for (const planner::Index workers : {10U, 30U, 50U}) {
        cell = {Part::kOrder, workers, unlike, 1, scheme, planner::Routing::kChosen, usual};
        cell.conditions.spreading = Spreading::kAsTheyCome;
        cells.push_back(cell);
        cell.routing = planner::Routing::kEcmp;
        cell.conditions.spreading = Spreading::kByFlow;
        cells.push_back(cell);
      }
      for (const std::uint32_t window : {64U, 128U, 512U}) {
        cell = {Part::kWindow, 30, unlike, 1, scheme, planner::Routing::kChosen, usual};
        cell.conditions.window = window;
        cells.push_back(cell);
      }
    }
  }
  return cells;
}

Result<Done> run_one(const Cell& cell) {
  const auto instance = planner_test::fat_tree_instance(cell.workers, cell.seed, cell.unlike);
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
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < cells.size(); i = next++) {
      auto one = run_one(cells[i]);
      if (!one) experiment::broken(describe(cells[i]) + ": " + one.error().text());
      done[i] = std::move(*one);
      std::fprintf(stderr, "%zu of %zu: %s: %.3f of %.3f Gbit/s\n", i + 1, cells.size(),
                   describe(cells[i]).c_str(), done[i].measured.rate, done[i].planned);
    }
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return done;
}

}  // namespace tally::routes
