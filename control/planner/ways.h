#pragma once
// Between two switches the shortest ways, and how equal-cost multipath (ECMP) spreads traffic over them.

#include <memory>
#include <optional>
#include <vector>

#include "planner/topology.h"

namespace tally::planner {

struct Way {
  std::vector<Index> links;  // empty: both ends are one switch
  double share = 0;          // of the traffic, when every switch halves, thirds ... it over its next hops
};

// What ECMP puts on a link of a unit of traffic.
struct LinkPart {
  Index link = kNone;
  double part = 0;
};

// Found when first asked for and kept. Not for several threads at once; the topology outlives it.
class Ways {
 public:
  explicit Ways(const Topology& topology) : topology_(topology), towards_(topology.switches().size()) {}

  [[nodiscard]] bool lead(Index from, Index to) { return towards(to).hops[from] != kNone; }
  // Each link of all ways once. Empty: nothing leads there, or both ends are one switch.
  [[nodiscard]] const std::vector<LinkPart>& parts(Index from, Index to);
  // Empty: nothing leads there. Shares add up to 1.
  [[nodiscard]] const std::vector<Way>& between(Index from, Index to);

 private:
  struct Towards {
    std::vector<Index> hops{};               // from every switch; kNone: nothing leads there
    std::vector<std::vector<Index>> next{};  // links that lead nearer
    // From every switch.
    std::vector<std::optional<std::vector<LinkPart>>> parts{};
    std::vector<std::optional<std::vector<Way>>> ways{};
  };
  Towards& towards(Index to);
  // Calls visit(links, share) for each way.
  template <class Visit>
  void each(const Towards& towards, Index from, Visit&& visit);

  const Topology& topology_;
  std::vector<std::unique_ptr<Towards>> towards_;
  std::vector<double> sums_{};   // of links; all 0 between calls
  std::vector<Index> on_way_{};  // links
};

}  // namespace tally::planner
