#pragma once
// From parts of the gradient to whole chunk groups.

#include <cstddef>
#include <span>
#include <vector>

#include "planner/split.h"
#include "planner/table.h"

namespace tally::planner {

// A sequence in which i stands counts[i] times, evenly spread, as Bresenham's line spreads its steps.
[[nodiscard]] std::vector<std::size_t> interleaved(std::span<const std::size_t> counts);

// Of all racks one map from groups to boxes (product form), or intervals that racks share where they can (full form).
// Boxes beyond what an entry can name or a worker can speak to lose their part to the others.
[[nodiscard]] Tables round_to_groups(const Split& split, const Party& party);

// As the literature does it, for comparison: every worker draws a place for every group by itself. The loads, when
// every worker sends at 1 Gbit/s.
[[nodiscard]] Rates independent_loads(LoadModel& model, const Topology& topology, const Party& party,
                                      const Split& split, std::uint64_t seed);

}  // namespace tally::planner
