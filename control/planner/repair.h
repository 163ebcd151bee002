#pragma once
// What rounding has spoilt is mended: groups are moved off the hottest resource, one at a time, as long as the worst
// load is above what it would be at the rate that the split promised.

#include <cstddef>

#include "planner/table.h"

namespace tally::planner {

// Of the load at the promised rate; what is below it is left as it is.
inline constexpr double kRepairedEnough = 1.002;

// Changes which places groups have, never how many groups a server has. Returns the number of moves.
std::size_t repair(LoadModel& model, const Topology& topology, const Party& party, const Rates& capacity,
                   double promised, Tables& tables);

}  // namespace tally::planner
