#pragma once
// Between two switches the shortest ways, and how equal-cost multipath (ECMP) spreads traffic over them.

#include <cstddef>
#include <unordered_map>
#include <vector>

#include "planner/topology.h"

namespace tally::planner {

struct Way {
  std::vector<Index> links;  // empty: both ends are one switch
  double share = 0;          // of the traffic, when every switch halves, thirds ... it over its next hops
};

// Found when first asked for and kept. Not for several threads at once; the topology outlives it.
class Ways {
 public:
  explicit Ways(const Topology& topology) : topology_(topology) {}

  // Empty: nothing leads there. Shares add up to 1.
  [[nodiscard]] const std::vector<Way>& between(Index from, Index to);

 private:
  // Hops to `to` from every switch; kNone: nothing leads there.
  const std::vector<Index>& hops_to(Index to);

  const Topology& topology_;
  std::unordered_map<std::size_t, std::vector<Way>> ways_;
  std::unordered_map<Index, std::vector<Index>> hops_;
};

}  // namespace tally::planner
