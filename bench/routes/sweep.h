#pragma once
// All runs of the comparison.

#include <cstdint>
#include <string_view>
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
};
inline constexpr std::array<std::string_view, 6> kPartNames{"against atp", "longer", "counted", "order",
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
// In the order of the cells. Ends the program where a run has no figure.
[[nodiscard]] std::vector<Done> run_all(const std::vector<Cell>& cells, unsigned threads);
[[nodiscard]] Result<Done> run_one(const Cell& cell);

}  // namespace tally::routes
