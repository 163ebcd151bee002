#pragma once
// Instances that any language can make again (mix64 of docs/protocol.md), and what judges a plan without the planner's
// own code: loads counted worker by worker and group by group, and a linear program with a column for each worker.

#include <cstdint>
#include <vector>

#include "planner/plan.h"

namespace tally::planner_test {

using planner::Index;

// 0 <= draw < 1
double drawn(std::uint64_t seed, std::uint64_t what, std::uint64_t i);
// `count` distinct numbers below n, in order.
std::vector<Index> picked(std::uint64_t seed, std::uint64_t what, Index n, Index count);

struct Instance {
  planner::Topology topology{};
  planner::Job job{};
};

// The fat tree of the literature: 54 hosts, 4 servers of 20 with equal shares, boxes of 9 at all switches, links of 20
// or of 10 to 30.
Instance fat_tree_instance(Index workers, std::uint64_t seed, bool unlike);
// Racks under spines, small and odd: unlike links, boxes and servers here and there, some of them down. wide: links
// between switches never bind.
Instance random_instance(std::uint64_t seed, bool wide);
// 64 racks of 8 hosts under 8 spines, boxes of 100 everywhere, 8 servers; every host works. unlike: uplinks between
// `uplink` and twice that, boxes of 50 to 150.
Instance large_instance(double uplink, bool unlike);

// What each resource carries when every worker sends at 1 Gbit/s.
planner::Rates counted_loads(const Instance& instance, const planner::Plan& plan, planner::Routing routing,
                             planner::Results results = planner::Results::kIgnored);
// The least capacity over load.
double rate_by(const planner::Rates& capacity, const planner::Rates& loads);

// The best that any mixture of places could reach, each worker by itself; by Clp, without the planner's programs.
double best_rate(const Instance& instance, planner::Routing routing);

}  // namespace tally::planner_test
