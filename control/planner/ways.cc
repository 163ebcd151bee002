#include "planner/ways.h"

#include <utility>

namespace tally::planner {

Ways::Towards& Ways::towards(Index to) {
  std::unique_ptr<Towards>& known = towards_[to];
  if (known) return *known;
  const std::size_t switches = topology_.switches().size();
  known = std::make_unique<Towards>();
  known->parts.resize(switches);
  known->ways.resize(switches);
  known->next.resize(switches);
  std::vector<Index>& hops = known->hops;
  hops.assign(switches, kNone);
  hops[to] = 0;
  std::vector<Index> reached{to};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const Index at = reached[i];
    for (const Index link : topology_.into(at)) {
      const Link& arriving = topology_.links()[link];
      if (arriving.rate <= 0 || hops[arriving.from] != kNone) continue;
      hops[arriving.from] = hops[at] + 1;
      reached.push_back(arriving.from);
    }
  }
  for (const Index at : reached) {
    for (const Index link : topology_.out_of(at)) {
      const Link& leaving = topology_.links()[link];
      if (leaving.rate > 0 && hops[leaving.to] != kNone && hops[leaving.to] + 1 == hops[at])
        known->next[at].push_back(link);
    }
  }
  return *known;
}

// Depth first. All ways are of one length.
template <class Visit>
void Ways::each(const Towards& towards, Index from, Visit&& visit) {
  if (towards.hops[from] == kNone) return;
  struct Step {
    Index at = kNone;
    double share = 0;
    std::size_t taken = 0;  // of the links from there
  };
  std::vector<Step> steps{{from, 1}};
  on_way_.clear();
  while (!steps.empty()) {
    Step& step = steps.back();
    const std::vector<Index>& next = towards.next[step.at];
    if (step.taken == next.size()) {
      if (towards.hops[step.at] == 0) visit(std::as_const(on_way_), step.share);
      steps.pop_back();
      if (!on_way_.empty()) on_way_.pop_back();
      continue;
    }
    const Index link = next[step.taken++];
    on_way_.push_back(link);
    steps.push_back({topology_.links()[link].to, step.share / static_cast<double>(next.size())});
  }
}

const std::vector<LinkPart>& Ways::parts(Index from, Index to) {
  Towards& there = towards(to);
  std::optional<std::vector<LinkPart>>& parts = there.parts[from];
  if (parts) return *parts;
  parts.emplace();
  sums_.resize(topology_.links().size());
  each(there, from, [&](const std::vector<Index>& links, double share) {
    for (const Index link : links) {
      if (sums_[link] == 0) parts->push_back({link, 0});
      sums_[link] += share;
    }
  });
  for (LinkPart& one : *parts) one.part = std::exchange(sums_[one.link], 0);
  return *parts;
}

const std::vector<Way>& Ways::between(Index from, Index to) {
  Towards& there = towards(to);
  std::optional<std::vector<Way>>& ways = there.ways[from];
  if (!ways) {
    ways.emplace();
    each(there, from,
         [&](const std::vector<Index>& links, double share) { ways->push_back({links, share}); });
  }
  return *ways;
}

}  // namespace tally::planner
