#pragma once
// All runs of the comparison.

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "routed_run.h"

namespace tally::routes {

// Which question a run belongs to.
enum class Part : std::uint8_t {
  kAgainstAtp,  // 10 to 50 workers, like and unlike links, three networks
  kLonger,      // four times the chunks
  kCounted,     // results take their room on links
  kOrder,       // packets as they come, and all of a flow on one way
  kWindow,
  kPolling,  // workers that poll: timers of 1 ms at least
  kTestBed,  // another network: 6 workers in two racks, 2 boxes, 2 servers
};
inline constexpr std::array<std::string_view, 7> kPartNames{"against atp", "longer", "counted", "order",
                                                            "window"};

struct Cell {
  Part part{};
  planner::Index workers = 10;
  bool unlike = false;
  std::uint64_t seed = 1;  // of the network
  Scheme scheme{};
  planner::Routing routing = planner::Routing::kChosen;
  Conditions conditions{};
};

struct Done {
  Cell cell{};
  double at_best = 0;  // as Laid has them
  double planned = 0;
  Measured measured{};
};

[[nodiscard]] std::vector<Cell> all_cells(bool quick);
// The test bed of the literature, as far as its printed rates say what it was: networks with these closed forms are many,
// and this is one. Links are wide; 5 of the 6 workers are in the first rack.
[[nodiscard]] std::vector<Cell> test_bed_cells();
inline constexpr std::array<std::pair<Scheme, double>, 4> kTestBedRates{{{Scheme::kLoadOnly, 15.4},
                                                                         {Scheme::kOwnRack, 19.25},
                                                                         {Scheme::kEqualSplit, 23.1},
                                                                         {Scheme::kPlanned, 26.2}}};
// In the order of the cells. Ends the program where a run has no figure.
[[nodiscard]] std::vector<Done> run_all(const std::vector<Cell>& cells, unsigned threads);
[[nodiscard]] Result<Done> run_one(const Cell& cell);

}  // namespace tally::routes
