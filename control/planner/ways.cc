#include "planner/ways.h"

#include <deque>

namespace tally::planner {

const std::vector<Index>& Ways::hops_to(Index to) {
  const auto [found, is_new] = hops_.try_emplace(to);
  std::vector<Index>& hops = found->second;
  if (!is_new) return hops;
  hops.assign(topology_.switches().size(), kNone);
  hops[to] = 0;
  std::deque<Index> reached{to};
  for (; !reached.empty(); reached.pop_front()) {
    const Index at = reached.front();
    for (const Index link : topology_.into(at)) {
      const Link& arriving = topology_.links()[link];
      if (arriving.rate <= 0 || hops[arriving.from] != kNone) continue;
      hops[arriving.from] = hops[at] + 1;
      reached.push_back(arriving.from);
    }
  }
  return hops;
}

const std::vector<Way>& Ways::between(Index from, Index to) {
  const auto [found, is_new] = ways_.try_emplace(std::size_t{from} * topology_.switches().size() + to);
  std::vector<Way>& ways = found->second;
  if (!is_new) return ways;
  const std::vector<Index>& hops = hops_to(to);
  if (hops[from] == kNone) return ways;
  // Depth first, with the ways that are begun on a stack.
  std::vector<std::pair<Index, Way>> begun{{from, Way{{}, 1}}};
  while (!begun.empty()) {
    auto [at, way] = std::move(begun.back());
    begun.pop_back();
    if (at == to) {
      ways.push_back(std::move(way));
      continue;
    }
    std::vector<Index> next;
    for (const Index link : topology_.out_of(at)) {
      const Link& leaving = topology_.links()[link];
      if (leaving.rate > 0 && hops[leaving.to] != kNone && hops[leaving.to] + 1 == hops[at])
        next.push_back(link);
    }
    for (auto link = next.rbegin(); link != next.rend(); ++link) {
      Way longer = way;
      longer.links.push_back(*link);
      longer.share /= static_cast<double>(next.size());
      begun.emplace_back(topology_.links()[*link].to, std::move(longer));
    }
  }
  return ways;
}

}  // namespace tally::planner
